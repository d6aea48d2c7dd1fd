/** Puts a turn that was had with a persona into its test file: of `troupe personas keep-test`, and of `/test` in a chat. */

import type { Config } from "../../config/config.ts";
import { Conversations } from "../../conversations/conversations.ts";
import { printable } from "../../lib/text/printable.ts";
import { systemClock } from "../../lib/time/clock.ts";
import { formatDiagnostic } from "../../lib/yaml/yaml.ts";
import { attemptsOf, storedMessages } from "../../operate/calls.ts";
import { planTest } from "../../operate/suites/run-tests.ts";
import { readSource, replaceSource, sourcePathOf } from "../../personas/file/source-file.ts";
import type { Persona } from "../../personas/persona.ts";
import { fittingAssertion } from "../../personas/suites/fitting.ts";
import { keepAsTest } from "../../personas/suites/keep.ts";
import type { TestCase } from "../../personas/suites/suite.ts";
import { parseTestFile } from "../../personas/suites/test-file.ts";
import type { AssistantMessage, Message } from "../../protocols/chat/schema.ts";
import { operatorOf } from "../commands/operator.ts";
import { withStore } from "../commands/storage.ts";
import { CommandError, type Context, type ExitCode } from "../context.ts";
import { loadPersonas } from "../personas.ts";

/** A turn, and what its answer has to be. */
export type KeptTurn = {
  /** `<namespace>/<name>`, also with a version or label. */
  readonly persona: string;
  /** The answer is the last. */
  readonly said: readonly Message[];
  readonly variables?: Readonly<Record<string, string>> | undefined;
  readonly fields?: Readonly<Record<string, unknown>>;
  /** A part of the answer, or what a grader is told that it has to do; absent: the answer itself. */
  readonly wanted?: string | undefined;
  readonly name?: string | undefined;
  readonly grader?: string | undefined;
};

/** @returns a line for whoever asked for it @throws CommandError, ApiError; nothing was written then */
export async function keepTurn(context: Context, config: Config, turn: KeptTurn): Promise<string> {
  const id = turn.persona.split("@")[0]!;
  const { folder, persona } = await ownPersona(context, config, id);
  const test = `${id}.test`;
  const path = await sourcePathOf(folder, test);
  const found = await readSource(folder, test);
  const options = { persona: id, declared: new Set(persona.variables.keys()) };
  const before = found === undefined || isBlank(found.text) ? [] : testsIn(found.text, path, options);
  if (turn.name !== undefined) assertNew(before, turn.name, path);
  const text = keepAsTest(found?.text ?? "", keptOf(turn, persona), options.declared, config.log.redact);
  const after = testsIn(text, path, options);
  const added = after.slice(before.length);
  for (const one of added) assertOther(before, one, persona, path);
  await replaceSource(folder, test, text, found?.hash ?? null);
  const { name, line, assertions } = after.at(-1)!;
  const types = assertions.map(({ type }) => type).join(", ");
  return `Kept in ${path}:${line} as '${name}' (${types}).`;
}

const isBlank = (text: string) => text.split("\n").every((line) => /^\s*(?:#.*)?$/.test(line));

async function ownPersona(context: Context, config: Config, id: string): Promise<{ folder: string; persona: Persona }> {
  const { folder, personas, paths, errors, from } = await loadPersonas(context, config.personas);
  const persona = personas.find((one) => one.id === id);
  const name = printable(id);
  if (persona !== undefined && folder !== undefined && paths.has(id)) return { folder, persona };
  if (persona !== undefined)
    throw new CommandError(
      `${name} is in the executable, and has no file that a test could stand beside: 'troupe personas show ${name}' prints one.`,
    );
  const fault = errors.find(({ file }) => file.replace(/\.ya?ml$/i, "").endsWith(`/${id}`));
  if (fault !== undefined) throw new CommandError(formatDiagnostic(fault));
  throw new CommandError(`There is no persona '${name}' in ${from}, and so no file that a test could stand beside.`);
}

type Options = { readonly persona: string; readonly declared: ReadonlySet<string> };

function testsIn(text: string, path: string, options: Options): readonly TestCase[] {
  const parsed = parseTestFile(text, path, options);
  if ("suite" in parsed) return parsed.suite.tests;
  throw new CommandError(`${parsed.errors.map(formatDiagnostic).join("\n")}\nNothing was written.`);
}

function assertNew(tests: readonly TestCase[], name: string, path: string): void {
  const same = tests.find((one) => one.name === name);
  if (same !== undefined)
    throw new CommandError(`${path}:${same.line} has a test '${printable(name)}' already; nothing was written.`);
}

/** @throws CommandError for what another test asks already, and for what the persona refuses */
function assertOther(before: readonly TestCase[], test: TestCase, persona: Persona, path: string): void {
  const { problem } = planTest(test, persona, path);
  if (problem !== undefined)
    throw new CommandError(`${persona.id} would refuse this test: ${problem} Nothing was written.`);
  const asked = ({ messages, fields, vars, assertions }: TestCase) => {
    const own = Object.entries(vars).filter(([name]) => persona.variables.has(name));
    return [messages, fields, Object.fromEntries(own), assertions.map(({ line: _, ...one }) => one)];
  };
  const same = before.find((one) => Bun.deepEquals(asked(one), asked(test)));
  if (same !== undefined)
    throw new CommandError(`${path}:${same.line}: '${printable(same.name)}' asks the same; nothing was written.`);
}

function keptOf({ said, variables, fields, wanted, name, grader }: KeptTurn, persona: Persona) {
  const answer = said.at(-1) as AssistantMessage | undefined;
  if (answer?.role !== "assistant" || said.length < 2) throw new CommandError("There is no answer to be kept.");
  const { content, refusal, tool_calls: toolCalls } = answer;
  const text = Array.isArray(content)
    ? content.map((part) => ("text" in part ? part.text : "")).join("")
    : (content ?? null);
  const assertion = fittingAssertion(
    { content: text, ...(refusal != null && { refusal }), ...(toolCalls != null && { toolCalls }) } as never,
    wanted,
    grader ?? persona.targets[0],
  );
  if (assertion === undefined)
    throw new CommandError(
      "The answer is too long to be expected as a whole: say what of it matters, by a part of it or by what it has to do.",
    );
  return {
    messages: said.slice(0, -1),
    ...(name !== undefined && { description: name }),
    ...(variables && { variables }),
    ...(fields && { fields }),
    assert: [assertion],
  };
}

type KeepOptions = {
  readonly expect?: string;
  readonly name?: string;
  readonly grader?: string;
  readonly variables?: Readonly<Record<string, string>>;
};

/** @param requestId of a call, as its answer's `x-request-id` has it */
export function keepCallAsTest(
  context: Context,
  requestId: string,
  { expect: wanted, ...options }: KeepOptions,
): Promise<ExitCode> {
  return withStore(context, async (store, config) => {
    if (!config.log.content)
      throw new CommandError("What was said in calls is not to be read: set log.content to true in the configuration.");
    const line = (await attemptsOf(store.ledger, requestId)).at(-1);
    if (line === undefined) throw new CommandError(`There is no call '${printable(requestId)}' in the ledger.`);
    if (line.persona === null)
      throw new CommandError(`${requestId} was a call of the model ${printable(line.model)}, and of no persona.`);
    const conversations = new Conversations(store, systemClock, () => config.conversations.retentionDays);
    const said = await storedMessages(conversations, line, "saidUntil");
    if (said === undefined)
      throw new CommandError(
        `What was said in ${requestId} is not kept: only calls with store: true are, until they are deleted or their retention ends.`,
      );
    await operatorOf(context, store, config).record({ act: "content.read", subject: requestId });
    const kept = await keepTurn(context, config, { persona: line.persona, said, wanted, ...options });
    context.io.stdout.write(`${printable(kept)}\n`);
  });
}
