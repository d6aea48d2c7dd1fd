/**
 * The formats' own programs, of pinned versions, which the long form of the suite asks. They are installed once, by the registries'
 * usual clients, into a folder of temporary files (or `TROUPE_TEST_PROGRAMS`); what can't be installed here is skipped by name.
 */
import { join } from "node:path";
import { installed, pythonWith, runProgram as run } from "./installed-folder.ts";

/** The one place of their versions. */
const npmPackages = {
  handlebars: "4.7.10",
  mustache: "4.2.0",
  nunjucks: "3.2.4",
  dotprompt: "1.1.2",
} as const;
const sillyTavern = "1.19.0";
const pythonPackages = { jinja2: "3.1.6", chevron: "0.14.0", prompty: "2.1.0", "skills-ref": "0.1.1" } as const;
const ollama = "v0.17.4";

const versionsOf = (packages: Readonly<Record<string, string>>, between: string) =>
  Object.entries(packages).map(([name, version]) => `${name}${between}${version}`);

/** A folder whose `node_modules` has the packages. */
export const npmFolder = installed(`npm-${Bun.hash(JSON.stringify(npmPackages)).toString(36)}`, (path) => {
  Bun.write(join(path, "package.json"), '{"type":"module"}');
  return run(["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", ...versionsOf(npmPackages, "@")], {
    cwd: path,
  });
});

const python = pythonWith("python", versionsOf(pythonPackages, "=="));

/** The program without the packages that it needs: parts of it are read. */
export const sillyTavernFolder = installed(`sillytavern-${sillyTavern}`, (path) => {
  const archive = run(["npm", "pack", "--silent", `sillytavern@${sillyTavern}`], { cwd: path })?.trim();
  return archive && run(["tar", "xzf", archive, "--strip-components=1"], { cwd: path });
});

const goFolder = installed(`ollama-${ollama}`, (path) => {
  const source = `package main
import ("encoding/json"; "os"; "github.com/ollama/ollama/parser")
func main() {
  var texts []string
  json.NewDecoder(os.Stdin).Decode(&texts)
  results := []any{}
  for _, text := range texts {
    file, err := parser.ParseFile(newReader(text))
    if err != nil { results = append(results, nil) } else { results = append(results, file.Commands) }
  }
  json.NewEncoder(os.Stdout).Encode(results)
}
`;
  Bun.write(
    join(path, "main.go"),
    source.replace("newReader(text)", "strings.NewReader(text)").replace('"os"', '"os"; "strings"'),
  );
  Bun.write(join(path, "go.mod"), `module program\n\ngo 1.24\n\nrequire github.com/ollama/ollama ${ollama}\n`);
  if (run(["go", "mod", "tidy"], { cwd: path }) === undefined) return undefined;
  return run(["go", "build", "-o", "program", "."], { cwd: path });
});

/** @param script an ES module that reads JSON of stdin and prints JSON */
export function askNode(script: string, input: unknown): unknown {
  const answer = run(["node", "--input-type=module", "-e", script], {
    cwd: npmFolder!,
    stdin: JSON.stringify(input),
    isShown: true,
  });
  if (answer === undefined) throw new Error("the script failed");
  return JSON.parse(answer);
}

export const hasPython = python !== undefined;
export function askPython(script: string, input: unknown): unknown {
  const answer = run([python!, "-c", script], { stdin: JSON.stringify(input), isShown: true });
  if (answer === undefined) throw new Error("the script failed");
  return JSON.parse(answer);
}

export const hasOllama = goFolder !== undefined;
type Command = { readonly Name: string; readonly Args: string };
/** @returns the commands that Ollama's parser finds in each text; null where it refuses one */
export function askOllama(texts: readonly string[]): (Command[] | null)[] {
  return JSON.parse(run([join(goFolder!, "program")], { stdin: JSON.stringify(texts) })!) as (Command[] | null)[];
}
