/** `troupe import litellm`: a configuration of LiteLLM's proxy becomes one of this program. */
import { basename, resolve } from "node:path";
import { stringify } from "yaml";
import { isObject } from "../../lib/json/json.ts";
import { printable } from "../../lib/text/printable.ts";
import { formatDiagnostic, YamlSource } from "../../lib/yaml/yaml.ts";
import { providers } from "../../providers/registry.ts";
import { CommandError, type Context, type ExitCode } from "../context.ts";
import { placeFiles } from "../personas/place-files.ts";
import { type Converted, convertLiteLlm } from "./convert.ts";

type Options = { readonly output?: string; readonly force?: boolean };

export function importLiteLlm({ io }: Context, file: string, { output, force }: Options): ExitCode {
  const source = read(io.readFile(resolve(io.cwd, file)), file);
  const converted = convertLiteLlm(source, new Set(providers.map(({ name }) => name)));
  if (converted.models === 0)
    throw new CommandError(
      [`${file} has no model in model_list that can be carried over.`, ...linesOf(converted)].join("\n"),
    );
  const text = textOf(converted, basename(file));
  if (output === undefined) io.stdout.write(text);
  else {
    placeFiles([{ path: resolve(io.cwd, output), content: text }], force === true);
    io.stdout.write(`${output}: ${converted.models} models\n`);
  }
  for (const line of linesOf(converted)) io.stderr.write(`${line}\n`);
  return 0;
}

/** @throws CommandError */
function read(text: string | undefined, file: string): YamlSource {
  if (text === undefined) throw new CommandError(`${file} can't be read.`);
  const source = new YamlSource(text, file);
  if (source.errors.length > 0) throw new CommandError(source.errors.map(formatDiagnostic).join("\n"));
  if (!isObject(source.value)) throw new CommandError(`${file} is no configuration of LiteLLM's proxy.`);
  return source;
}

const linesOf = ({ omitted }: Converted) => omitted.map((one) => printable(formatDiagnostic(one)));

function textOf(converted: Converted, name: string): string {
  const lines = linesOf(converted);
  const head = [
    `Made of LiteLLM's ${printable(name)} by 'troupe import litellm'. Check it with: troupe check`,
    "A gateway alone, at the address and under /v1 as LiteLLM's proxy: clients need another key and nothing else.",
    ...(lines.length > 0 ? ["", "Not carried over, or not as it was:", ...lines] : []),
  ];
  const comment = head.map((line) => (line === "" ? "#\n" : `# ${line}\n`)).join("");
  return `${comment}\n${stringify(converted.config, { lineWidth: 0 })}`;
}
