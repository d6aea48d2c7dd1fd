/** Runs a persona's tests in this server: its calls are the tester's own, within limits and budgets, and in the ledger. */
import type { Caller } from "../../auth/keys.ts";
import type { InsideCall } from "../../call/inside-call.ts";
import { gateway } from "../../call/plan/gateway.ts";
import { orchestrator } from "../../call/plan/orchestrator.ts";
import type { Services } from "../../call/services.ts";
import type { Persona } from "../../personas/persona.ts";
import { NotJudged } from "../../personas/suites/not-judged.ts";
import { Personas } from "../../personas/versions/registry.ts";
import { LiveAnswers, type Send } from "./answers.ts";
import { type PlannedTest, runTests, type TestResult } from "./run-tests.ts";

/** How many tests of one run are asked at once. */
const concurrency = 4;
/** A run that takes longer is ended; what was not judged by then is an error. */
export const maxRunMs = 600_000;

type Run = {
  readonly persona: Persona;
  readonly planned: readonly PlannedTest[];
  readonly caller: Caller;
  readonly signal: AbortSignal;
  /** Answers a call of this server's own, by whatever lets callers in. */
  readonly complete: (call: InsideCall) => Promise<Response>;
};

/** The same services with the persona as it is tested: without its variants, and for every tier. */
function servicesWith(services: Services, persona: Persona): Services {
  const others = services.personas.list().filter(({ id }) => id !== persona.id);
  const personas = new Personas([...others, { ...persona, tier: "free" }]);
  return Object.create(services, { personas: { value: personas } }) as Services;
}

export async function runPersonaTests(
  own: Services,
  { persona, planned, caller, signal, complete }: Run,
): Promise<TestResult[]> {
  const services = servicesWith(own, persona);
  const send: Send = async (base, body) => {
    if (signal.aborted) throw new NotJudged("the run was ended");
    const surface = base === "/v1" ? orchestrator : gateway;
    const path = `${base}/chat/completions`;
    return complete({
      surface,
      path,
      caller,
      permission: "admin",
      body,
      client: "troupe-tests",
      signal,
      services,
    });
  };
  const isPersona = (id: string) => services.personas.find(id) !== undefined;
  const answers = new LiveAnswers(send, (id) => id, isPersona);
  const [results] = await runTests(planned, [{ label: "current", answers }], {
    concurrency,
    onRun: () => {},
  });
  return results!;
}
