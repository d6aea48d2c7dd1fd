/** The admin API's routes of personas' tests: what there is, what a run may cost, and a run. */
import { type Static, Type } from "@sinclair/typebox";
import { PersonaTestRun, PersonaTests } from "../api/persona-tests.ts";
import type { Host, RequestContext } from "../call/context.ts";
import type { InsideCall } from "../call/inside-call.ts";
import type { Services } from "../call/services.ts";
import { completeInside } from "../http/inside.ts";
import { writing } from "../http/openapi/describe.ts";
import { Closed } from "../lib/json/schemas.ts";
import { truncate } from "../lib/text/truncate.ts";
import { isoTime } from "../lib/time/clock.ts";
import { findingOf } from "../operate/personas/check.ts";
import { maxRunMs, runPersonaTests } from "../operate/suites/run.ts";
import { type PlannedTest, planTest, repetitionsOf, type TestResult } from "../operate/suites/run-tests.ts";
import { loadSuites } from "../operate/suites/suites.ts";
import { estimateCost, estimateWords } from "../operate/suites/test-cost.ts";
import { testSummaryOf, verdictReasonOf } from "../operate/suites/test-report.ts";
import type { Persona } from "../personas/persona.ts";
import { outputOf, textOfOutput } from "../personas/suites/answer.ts";
import { ApiError } from "../protocols/errors.ts";
import { type AdminPlugin, actingCaller } from "./act.ts";
import { adminOperation } from "./pages.ts";
import { Named } from "./persona-files.ts";
import { servedPersona } from "./personas.ts";

const RunBody = Closed({
  variant: Type.Optional(Type.String({ description: "One of its variants; default: the persona without them." })),
  names: Type.Optional(
    Type.Array(Type.String(), { minItems: 1, maxItems: 1000, description: "Of the tests to run; default: all." }),
  ),
  max_dollars: Type.Optional(
    Type.Number({ minimum: 0, maximum: 1000, description: "Nothing is asked where it may cost more. Default: 1." }),
  ),
});

/** Runs at once, in this process. */
const maxRuns = 2;
const maxOutput = 2_000;
/** Characters of the JSON of a run that is kept, about. */
const maxKept = 64_000;
const microDollars = (dollars: number) => Math.round(dollars * 1e6);

async function planOf(services: Services, served: Persona, variant?: string) {
  const { folder } = services.live.config.personas;
  const { variants = [], ...plain } = served;
  const persona = variant === undefined ? plain : variants.find((one) => one.name === variant)?.persona;
  if (persona === undefined) throw ApiError.invalidValue("variant", "variant: it has no variant of that name.");
  // Where the personas are those in the executable, no file of the folder is about them.
  const isOwn = services.personas.labels !== undefined;
  const wants = (id: string) => id === served.id;
  const read = { personas: [served], errors: [], paths: new Map<string, string>(), ...(isOwn && { folder }) };
  const { suites, errors } = await loadSuites(read, { wants });
  const planned = suites.flatMap(({ suite }) => suite.tests.map((test) => planTest(test, persona, suite.file)));
  return { persona, planned, file: suites[0]?.suite.file ?? errors[0]?.file ?? null, errors };
}

function estimateOf({ live }: Services, planned: readonly PlannedTest[]) {
  const asked = planned.filter(({ problem }) => problem === undefined);
  return estimateCost(
    asked.map((one) => ({
      prepared: one.prepared,
      models: one.prepared.persona.targets,
      times: repetitionsOf(one, undefined),
    })),
    live.config,
  );
}

function testJson(result: TestResult): PersonaTestRun["tests"][number] {
  const { prepared, runs, verdict } = result;
  const shown = runs.find((run) => run.verdict === verdict) ?? runs[0];
  const answer = shown?.answer;
  return {
    name: prepared.test.name,
    line: prepared.test.line,
    verdict,
    reason: verdictReasonOf(result),
    output: answer === undefined ? null : truncate(textOfOutput(outputOf(answer)), maxOutput),
    latency_ms: answer?.latencyMs ?? null,
    runs: runs.length,
  };
}

/** The run as it is kept: beyond the most characters without answers, those of passed tests first, and then without tests. */
function shortened(run: PersonaTestRun): PersonaTestRun {
  const tests = run.tests.map((one) => ({ ...one, name: truncate(one.name, 200), reason: truncate(one.reason, 500) }));
  const isLong = () => JSON.stringify(tests).length > maxKept;
  for (const drops of [["pass"], ["pass", "fail", "error"]]) {
    if (!isLong()) break;
    for (const one of tests) if (drops.includes(one.verdict)) one.output = null;
  }
  if (isLong()) tests.sort((a, b) => Number(a.verdict === "pass") - Number(b.verdict === "pass"));
  while (isLong()) tests.length = Math.floor(tests.length / 2);
  return { ...run, tests };
}

/** @param host of the calls */
export function personaTestRoutes(host: Host) {
  let running = 0;

  async function run(services: Services, context: RequestContext, id: string, body: Static<typeof RunBody>) {
    const served = servedPersona(services, id);
    const { persona, planned: all, errors } = await planOf(services, served, body.variant);
    if (errors.length > 0)
      throw ApiError.personaInvalid(`${errors[0]!.file}:${errors[0]!.line}: ${errors[0]!.message}.`);
    const lost = body.names?.find((name) => !all.some(({ test }) => test.name === name));
    if (lost !== undefined) throw ApiError.invalidValue("names", `names: there is no test '${truncate(lost)}'.`);
    const planned = all.filter(({ test }) => body.names?.includes(test.name) ?? true);
    if (planned.length === 0) throw ApiError.notFound("It has no tests: they stand beside it in <name>.test.yaml.");
    const estimate = estimateOf(services, planned);
    const most = body.max_dollars ?? 1;
    if (estimate.most > most)
      throw ApiError.invalidValue("max_dollars", `max_dollars: it may take ${estimateWords(estimate)}.`);
    if (running >= maxRuns) throw ApiError.unavailable("overloaded", "Tests are running already. Retry in a moment.");
    running += 1;
    context.setIdleTimeout(0);
    const ended = new AbortController();
    const cancel = services.clock.setTimer(maxRunMs, () => ended.abort());
    const signal = AbortSignal.any([context.request.signal, ended.signal]);
    const startedAt = services.clock.now();
    try {
      const caller = actingCaller(context);
      const complete = (call: InsideCall) => completeInside(host, call);
      const results = await runPersonaTests(services, { persona, planned, caller, signal, complete });
      const { passed, failed, errors: unjudged, cost, unknownCosts } = testSummaryOf(results);
      const made: PersonaTestRun = {
        object: "persona.test_run",
        ...{ persona: id, version: served.version, variant: body.variant ?? null },
        ...{ started_at: isoTime(startedAt), duration_ms: services.clock.now() - startedAt, actor: caller.keyId },
        ...{ passed, failed, errors: unjudged },
        cost_micro_dollars: microDollars(cost),
        unknown_cost_calls: unknownCosts,
        tests: results.map(testJson),
      };
      // One that tests a part or a variant says nothing of the whole.
      if (body.names === undefined && body.variant === undefined) {
        const counts = { version: served.version, passed, failed, errors: unjudged };
        const run = JSON.stringify(shortened(made));
        await services.store.testRuns.put({ persona: id, at: startedAt, ...counts, run });
      }
      return made;
    } finally {
      running -= 1;
      cancel();
    }
  }

  return (plugin: AdminPlugin) =>
    plugin
      .get(
        "/v1/personas/:namespace/:name/tests",
        async ({ services, params: { namespace, name } }) => {
          const id = `${namespace}/${name}`;
          const { planned, file, errors } = await planOf(services, servedPersona(services, id));
          const { calls, most, unknown } = estimateOf(services, planned);
          const last = await services.store.testRuns.get(id);
          return {
            ...{ object: "persona.tests", persona: id, file },
            tests: planned.map(({ test }) => ({
              ...{ name: test.name, line: test.line, assertions: test.assertions.length },
            })),
            findings: errors.map((one) => findingOf(one)),
            estimate: { calls, most_micro_dollars: microDollars(most), unknown_cost_calls: unknown },
            last_run: last === undefined ? null : (JSON.parse(last.run) as PersonaTestRun),
          };
        },
        adminOperation({
          operationId: "adminListPersonaTests",
          summary: "A persona's tests, what a run of them may cost, and the last run",
          params: Named,
          response: PersonaTests,
          errors: [404],
        }),
      )
      .post(
        "/v1/personas/:namespace/:name/tests/run",
        async ({ services, context, params: { namespace, name }, body, operator }) => {
          const id = `${namespace}/${name}`;
          const made = await run(services, context, id, body);
          const { version, variant, passed, failed, errors, cost_micro_dollars } = made;
          const counts = { passed, failed, errors, cost_micro_dollars };
          const after = { version, variant, whole: body.names === undefined, ...counts };
          await operator.record({ act: "persona.test", subject: id, after });
          return made;
        },
        adminOperation({
          operationId: "adminRunPersonaTests",
          summary: "Asks a persona what its tests say, and judges the answers",
          description:
            "Four tests at a time, for ten minutes at most, and nothing where it may cost more than max_dollars. The calls are those of the key that asks, in its limits and budgets and in the ledger; the answer comes when all are judged.",
          params: Named,
          body: RunBody,
          bodyIsOptional: true,
          response: PersonaTestRun,
          errors: [404, 422, 503, ...writing],
        }),
      );
}
