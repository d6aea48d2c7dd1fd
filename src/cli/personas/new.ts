/** `troupe personas new`: a persona from the command line, or by questions at a terminal. */

import { relative, resolve } from "node:path";
import { createInterface, type Interface } from "node:readline/promises";
import { nameProblem } from "../../personas/persona.ts";
import { parseModelId } from "../../protocols/model-id.ts";
import { CommandError, type Context, type ExitCode, keyless, UsageError, withConfig } from "../context.ts";
import { draftFilesOf, usualModels } from "./draft-files.ts";
import { placeFiles, schemaFiles } from "./place-files.ts";

type Options = {
  readonly description?: string;
  readonly system?: string;
  readonly model?: string[];
  readonly out?: string;
  readonly force?: boolean;
};

type Answers = {
  readonly id: string;
  readonly description: string;
  readonly system: string;
  readonly models: readonly string[];
};

export function newPersona(context: Context, id: string | undefined, options: Options): Promise<ExitCode> {
  return withConfig(
    context,
    async (config) => {
      const { io } = context;
      if (id !== undefined) refuseWrong("<id>", idProblem(id));
      if (options.model !== undefined) refuseWrong("--model", modelProblem(options.model.join(", ")));
      const answers = givenAnswers(id, options) ?? (await askAll(context, id, options));
      const { description, system, models } = answers;
      const folder = options.out === undefined ? config.personas.folder : resolve(io.cwd, options.out);
      const files = draftFilesOf(
        { name: answers.id, draft: { description, system }, omitted: [] },
        answers.id,
        folder,
        models,
      );
      placeFiles(files, options.force === true);
      placeFiles(schemaFiles(folder), true);
      io.stdout.write(`${answers.id}: ${files.map(({ path }) => relative(io.cwd, path)).join(", ")}\n`);
      io.stderr.write(`Try it: troupe chat ${answers.id}\n`);
      return 0;
    },
    keyless,
  );
}

function refuseWrong(what: string, problem: string | undefined): void {
  if (problem !== undefined) throw new UsageError(`${what} ${problem}.`);
}

/** @returns undefined where something is left to be asked */
function givenAnswers(id: string | undefined, { description, system, model }: Options): Answers | undefined {
  if (id === undefined || description === undefined || system === undefined) return undefined;
  return { id, description, system, models: model ?? usualModels };
}

/** @throws UsageError where nobody can be asked */
async function askAll({ io }: Context, id: string | undefined, options: Options): Promise<Answers> {
  if (io.terminal === undefined || !io.stdin.isTerminal) {
    throw new UsageError("An id, --description and --system are needed where no terminal can be asked.");
  }
  const { input, output } = io.terminal();
  const lines = createInterface({ input, output });
  const ended = new AbortController();
  lines.on("close", () => ended.abort());
  const ask = (question: string, problemOf: (answer: string) => string | undefined) =>
    askUntil(lines, ended.signal, question, problemOf);
  try {
    const asked = {
      id: id ?? (await ask("Its id, as <namespace>/<name>: ", idProblem)),
      description: options.description ?? (await ask("What it does, in a sentence: ", isFilled)),
    };
    const models =
      options.model ??
      modelsOf(await ask(`Its model, or several (enter: ${usualModels[0]} and others): `, modelProblem));
    const system = options.system ?? (await askText(lines, ended.signal));
    return { ...asked, models: models.length === 0 ? usualModels : models, system };
  } catch (error) {
    if (ended.signal.aborted) throw new CommandError("Nothing was written.");
    throw error;
  } finally {
    lines.close();
  }
}

async function askUntil(
  lines: Interface,
  signal: AbortSignal,
  question: string,
  problemOf: (answer: string) => string | undefined,
): Promise<string> {
  for (;;) {
    const answer = (await lines.question(question, { signal })).trim();
    const problem = problemOf(answer);
    if (problem === undefined) return answer;
    question = `That ${problem}. ${question.replace(/^That .*?\. /, "")}`;
  }
}

/** Lines up to an empty one. */
async function askText(lines: Interface, signal: AbortSignal): Promise<string> {
  let question = "Its system text, ended by an empty line:\n> ";
  const text: string[] = [];
  for (;;) {
    const line = await lines.question(question, { signal });
    if (line.trim() !== "") text.push(line);
    else if (text.length > 0) return text.join("\n");
    question = "> ";
  }
}

const isFilled = (answer: string) => (answer === "" ? "must say something" : undefined);

function idProblem(id: string): string | undefined {
  const { namespace, name } = parseModelId(id) ?? {};
  if (namespace === undefined || name === undefined) return "must be <namespace>/<name>";
  return nameProblem(namespace) ?? nameProblem(name);
}

const modelsOf = (text: string) => text.split(/[\s,]+/).filter((model) => model !== "");

const modelProblem = (text: string) =>
  modelsOf(text).every((model) => /^[a-z0-9][a-z0-9._-]*\/\S+$/.test(model))
    ? undefined
    : "must be <provider>/<model>, or several";
