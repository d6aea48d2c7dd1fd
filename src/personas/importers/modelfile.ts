/** Ollama's Modelfile. Source: https://github.com/ollama/ollama/blob/main/docs/modelfile.mdx */
import {
  type Draft,
  type Imported,
  literal,
  Omissions,
  pairedTurns,
  samplingOf,
  stopsOf,
  type Turn,
  withoutEmpty,
} from "./draft.ts";
import type { Importer } from "./importer.ts";
import { ImportError } from "./source.ts";

type Command = { readonly name: string; readonly value: string; readonly line: number };

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
  detects(source) {
    if (source.looksLikeJson || source.bytes.subarray(0, 8192).includes(0)) return false;
    const lines = source.text.split("\n").filter((line) => line.trim() !== "" && !line.startsWith("#"));
    const first = /^\s*([A-Za-z]+)\s+\S/.exec(lines[0] ?? "")?.[1]?.toLowerCase() ?? "";
    return names.includes(first) && lines.some((line) => /^\s*from\s+\S/i.test(line));
  },
  read(source) {
    return [new Reader(commandsOf(source.text.replaceAll("\r\n", "\n"))).read()];
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
    // A value in quotes, one or three, goes on to the line that ends with them.
    const [before = "", , quotes = ""] = /^((?:system|user|assistant)\s+)?("""|")/i.exec(rest) ?? [];
    let value = rest.slice(before.length).trimEnd();
    while (quotes !== "" && !value.endsWith(quotes)) {
      at++;
      if (at >= lines.length) throw new ImportError(`line ${start + 1}`, `has ${quotes} without its end`);
      value += `\n${lines[at]!.trimEnd()}`;
    }
    value = quotes === "" ? rest.trim() : rest.slice(0, before.length - quotes.length) + value.slice(0, -quotes.length);
    commands.push({ name, value, line: start + 1 });
  }
  return commands;
}

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
    const texts = systems.slice(-1).map(({ value }) => value.trim());
    const turns: Turn[] = [];
    const messages = this.#commands.filter(({ name }) => name === "message");
    for (const { value, line } of messages) {
      const [, role = "", content = ""] = /^(system|user|assistant)\s+([\s\S]*)$/i.exec(value.trim()) ?? [];
      if (role === "") throw new ImportError(`line ${line}`, "MESSAGE must have a role: system, user or assistant");
      if (role.toLowerCase() === "system") texts.push(content.trim());
      else turns.push({ role: role.toLowerCase() as Turn["role"], content: content.trim() });
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
    for (const { name, value, line } of this.#commands) {
      if (name !== "parameter") continue;
      const [, key = "", text = ""] = /^(\S+)\s+([\s\S]*)$/.exec(value.trim()) ?? [];
      const number = Number(text);
      if (key === "stop") stops.push(text.trim().replace(/^"(.*)"$/, "$1"));
      else if (!Object.hasOwn(samplingNames, key))
        this.#omit(line, `PARAMETER ${key} is one of Ollama's own API: set it where the model is served`);
      else if (text === "" || Number.isNaN(number))
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
