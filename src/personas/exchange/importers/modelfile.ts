/** Ollama's Modelfile. Source: https://github.com/ollama/ollama/blob/main/docs/modelfile.mdx */
import {
  type Draft,
  type DraftTurn,
  type Imported,
  literal,
  Omissions,
  pairedTurns,
  samplingOf,
  stopsOf,
  withoutEmpty,
} from "./draft.ts";
import type { Importer } from "./importer.ts";
import { ImportError } from "./source.ts";

type Command = {
  readonly name: string;
  /** The role of a MESSAGE, the name of a PARAMETER. */
  readonly key: string;
  readonly value: string;
  readonly line: number;
};

const names = "from parameter template system adapter license message requires draft renderer parser".split(" ");

/** Commands that say something of the weights or their files, and why a persona can't. */
const reasons: Readonly<Record<string, string>> = {
  template: "is the model's own form of prompts: whoever serves the model applies it",
  adapter: "changes the model's weights: name a model that has them by --model",
  license: "is the model's",
  requires: "is a version of Ollama",
  draft: "is a model for speculative decoding, which whoever serves the model sets up",
  renderer: "is the model's own form of prompts: whoever serves the model applies it",
  parser: "is the model's own form of answers: whoever serves the model applies it",
};

export const modelfile: Importer = {
  format: "modelfile",
  title: "Ollama Modelfile",
  claims: (source) => /(?:^|\.)modelfile$/i.test(source.name),
  detects(source) {
    if (source.looksLikeJson || source.bytes.subarray(0, 8192).includes(0)) return false;
    const lines = source.text.split("\n").filter((line) => line.trim() !== "" && !line.startsWith("#"));
    const first = /^\s*([A-Za-z]+)\s+\S/.exec(lines[0] ?? "")?.[1]?.toLowerCase() ?? "";
    return names.includes(first) && lines.some((line) => /^\s*from\s+\S/i.test(line));
  },
  read(source) {
    const commands = commandsOf(source.text.replaceAll("\r\n", "\n"));
    if (!commands.some(({ name }) => name === "from")) throw new ImportError("", "has no FROM: it is no Modelfile");
    return [new Reader(commands).read()];
  },
};

/** @throws ImportError naming the line of what is no command */
function commandsOf(text: string): Command[] {
  const commands: Command[] = [];
  const lines = text.split("\n");
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at]!;
    if (line.trim() === "" || line.trimStart().startsWith("#")) continue;
    const [, word = "", rest = ""] = /^\s*(\S+)\s*(.*)$/.exec(line)!;
    const name = word.toLowerCase();
    if (!names.includes(name))
      throw new ImportError(`line ${at + 1}`, `'${word.slice(0, 40)}' is no command of a Modelfile`);
    const start = at;
    const [before = ""] = beforeValue[name]?.exec(rest) ?? [];
    let written = rest.slice(before.length);
    let value = unquoted(written.trim());
    // A value in quotes, one or three, goes on to the line that ends with them.
    while (value === undefined) {
      at++;
      if (at >= lines.length) {
        const quotes = written.trimStart().startsWith('"""') ? '"""' : '"';
        throw new ImportError(`line ${start + 1}`, `has ${quotes} without its end`);
      }
      written += `\n${lines[at]!}`;
      value = unquoted(written.trim());
    }
    commands.push({ name, key: before.trim(), value, line: start + 1 });
  }
  return commands;
}

/** The role of a message, the name of a parameter. */
const beforeValue: Readonly<Record<string, RegExp>> = { message: /^\S+(?:\s+|$)/, parameter: /^\S+(?:\s+|$)/ };

/** What stands between quotes is as it is there, blanks at its ends and within too. @returns undefined for quotes without their end */
function unquoted(value: string): string | undefined {
  for (const quotes of ['"""', '"']) {
    if (!value.startsWith(quotes)) continue;
    const isEnded = value.length >= 2 * quotes.length && value.endsWith(quotes);
    return isEnded ? value.slice(quotes.length, -quotes.length) : undefined;
  }
  return value;
}

/** Without empty lines around it, and blanks at its end. */
const withoutBlankEnds = (text: string): string => text.replace(/^(?:[ \t]*\n)+/, "").trimEnd();

/** What Ollama leaves out when it reads a file, but for line ends and tabs: characters that are no letters, marks, numbers or signs. */
export const unprinted = /(?![ \n\r\t])[\p{C}\p{Z}]/u;

class Reader {
  readonly #commands: readonly Command[];
  readonly #omissions = new Omissions();

  constructor(commands: readonly Command[]) {
    this.#commands = commands;
  }

  read(): Imported {
    const { system, examples } = this.#texts();
    const { defaults, stop } = this.#parameters();
    for (const { name, line } of this.#commands) {
      if (Object.hasOwn(reasons, name)) this.#omit(line, `${name.toUpperCase()} ${reasons[name]}`);
    }
    const { model, name } = this.#model();
    const draft: Draft = withoutEmpty({
      description: name === "" ? undefined : `${name}, with a system text of its own.`,
      model: model === undefined ? undefined : [model],
      system,
      examples,
      defaults,
      stop,
    });
    return { name, draft, omitted: this.#omissions.list };
  }

  #model(): { readonly model: string | undefined; readonly name: string } {
    const from = this.#commands.findLast(({ name }) => name === "from");
    const value = from?.value.trim() ?? "";
    const isName =
      /^[\w.-]+(?:\/[\w.-]+)*(?::[\w.-]+)?$/.test(value) &&
      !/\.(?:gguf|bin|safetensors)$/i.test(value) &&
      !/^[./~]/.test(value);
    if (from !== undefined && !isName)
      this.#omit(from.line, "FROM names files: name the model that was made of them by --model");
    return isName
      ? {
          model: `ollama/${value}`,
          name: value
            .split("/")
            .at(-1)!
            .replace(/:latest$/, ""),
        }
      : { model: undefined, name: "" };
  }

  #texts() {
    const systems = this.#commands.filter(({ name }) => name === "system");
    for (const { line } of systems.slice(0, -1)) this.#omit(line, "SYSTEM stands further down again, which wins");
    const texts = systems.slice(-1).map(({ value }) => withoutBlankEnds(value));
    const turns: DraftTurn[] = [];
    const messages = this.#commands.filter(({ name }) => name === "message");
    for (const { key, value, line } of messages) {
      const role = key.toLowerCase();
      if (!/^(?:system|user|assistant)$/.test(role))
        throw new ImportError(`line ${line}`, "MESSAGE must have a role: system, user or assistant");
      const content = withoutBlankEnds(value);
      if (role === "system") texts.push(content);
      else turns.push({ role: role as DraftTurn["role"], content });
    }
    for (const { name, value, line } of [...systems.slice(-1), ...messages]) {
      const [character] = unprinted.exec(value) ?? [];
      if (character === undefined) continue;
      const code = character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0");
      this.#omit(
        line,
        `${name.toUpperCase()} has characters that Ollama leaves out, such as U+${code}: they are kept here`,
      );
    }
    const system = texts
      .filter((text) => text !== "")
      .map(literal)
      .join("\n\n");
    if (system === "") throw new ImportError("", "has no SYSTEM: a persona is its system text");
    const examples = pairedTurns(turns);
    if (examples === undefined) {
      throw new ImportError(`line ${messages.at(-1)!.line}`, "MESSAGEs must be questions and answers in turn");
    }
    return { system, examples };
  }

  #parameters() {
    const given: Record<string, number> = {};
    const stops: string[] = [];
    for (const { name, key, value: text, line } of this.#commands) {
      if (name !== "parameter") continue;
      const number = Number(text);
      if (key === "stop") stops.push(text);
      else if (!Object.hasOwn(samplingNames, key))
        this.#omit(line, `PARAMETER ${key} is one of Ollama's own API: set it where the model is served`);
      else if (text.trim() === "" || Number.isNaN(number))
        throw new ImportError(`line ${line}`, `PARAMETER ${key} must be a number`);
      // -1 and -2 mean "no limit" to Ollama, which is the default here.
      else if (key !== "num_predict" || number > 0) given[key] = number;
    }
    const defaults = samplingOf(given, samplingNames, ["PARAMETER"], this.#omissions);
    return { defaults, stop: stopsOf(stops, ["PARAMETER", "stop"], this.#omissions) };
  }

  #omit(line: number, message: string): void {
    this.#omissions.add(`line ${line}`, message);
  }
}

const samplingNames = {
  temperature: "temperature",
  top_p: "top_p",
  seed: "seed",
  num_predict: "max_tokens",
  presence_penalty: "presence_penalty",
  frequency_penalty: "frequency_penalty",
} as const;
