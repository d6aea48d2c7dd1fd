/** Variables and secrets: from the environment, from the file that `NAME_FILE` names, or from systemd's credentials. */
import { join } from "node:path";
import { objectOf, parseJson } from "../lib/json/json.ts";
import type { Diagnostic } from "../lib/yaml/yaml.ts";

export type Environment = Readonly<Record<string, string | undefined>>;
/** @returns undefined when there is no such file. @throws when there is one that can't be read */
export type ReadFile = (path: string) => string | undefined;

/** `from` says where it was found, without its value. */
export type FoundValue = { readonly value: string; readonly from: string };

/**
 * The variables without quotation marks around their values, which Docker's `--env-file` and some service managers keep: no address and no
 * key begins and ends with one. Source: https://docs.docker.com/reference/cli/docker/container/run/#env
 */
export const withoutQuotes = (env: Environment): Environment =>
  Object.fromEntries(Object.entries(env).map(([name, value]) => [name, value && unquoted(value)]));

const unquoted = (text: string): string => /^\s*(["'])((?:(?!\1).)*)\1\s*$/s.exec(text)?.[2] ?? text;

export class Variables {
  /** Errors of the look-ups so far. */
  readonly errors: Diagnostic[] = [];
  readonly #env: Environment;
  readonly #readFile: ReadFile;
  readonly #found = new Map<string, FoundValue | undefined>();

  constructor(env: Environment, readFile: ReadFile) {
    this.#env = env;
    this.#readFile = readFile;
  }

  /** A variable that is set to nothing is found, with the value "". */
  find(name: string): FoundValue | undefined {
    if (!this.#found.has(name)) this.#found.set(name, this.#search(name));
    return this.#found.get(name);
  }

  /** The first that has a value. */
  first(names: readonly string[]): FoundValue | undefined {
    for (const name of names) {
      const found = this.find(name);
      if (found === undefined || found.value.trim() === "") continue;
      const value = found.value.trim();
      if (/^["']|["']$/.test(value)) return this.report(name, "has a quotation mark at one end, which nothing closes");
      return { ...found, value };
    }
    return undefined;
  }

  /** True if it was looked up. */
  knows(name: string): boolean {
    return this.#found.has(name);
  }

  /** A text in the JSON object of a file. Whoever uses the file says what is wrong with it. */
  inFile(path: string, member: string): FoundValue | undefined {
    try {
      const value = objectOf(parseJson(this.#readFile(path) ?? ""))?.[member];
      return typeof value === "string" && value !== "" ? { value, from: path } : undefined;
    } catch {
      return undefined;
    }
  }

  report(name: string, message: string): undefined {
    this.errors.push(withoutPlace("environment", name, message));
  }

  #search(name: string): FoundValue | undefined {
    const fileVariable = `${name}_FILE`;
    const value = this.#env[name];
    const file = this.#env[fileVariable];
    if (file !== undefined && file !== "") {
      if (value !== undefined && value !== "") return this.report(name, `is set, and ${fileVariable} too: unset one`);
      return this.#read(file, fileVariable) ?? this.report(fileVariable, `names ${file}, which does not exist`);
    }
    return value === undefined ? this.#credential(name) : { value, from: name };
  }

  /** Source: https://systemd.io/CREDENTIALS/ */
  #credential(name: string): FoundValue | undefined {
    const folder = this.#env["CREDENTIALS_DIRECTORY"];
    if (folder === undefined || folder === "") return undefined;
    const paths = [name, name.toLowerCase()].map((file) => join(folder, file));
    return paths.map((path) => this.#read(path, name)).find((found) => found !== undefined);
  }

  #read(path: string, variable: string): FoundValue | undefined {
    try {
      const text = this.#readFile(path);
      return text === undefined ? undefined : { value: unquoted(text.trim()), from: path };
    } catch (error) {
      this.report(variable, `names ${path}, which can't be read: ${(error as Error).message}`);
      return { value: "", from: path };
    }
  }
}

/** A diagnostic about a whole file, or what is none: a flag, a variable. */
export function withoutPlace(file: string, path: string, message: string): Diagnostic {
  return { file, line: 0, column: 0, path, message };
}
