/** `troupe personas preview`: serves the personas of a working tree under a label of a running server, for a time. */
import { readFileSync, statSync } from "node:fs";
import { knowledgeCollection } from "../../call/plan/knowledge.ts";
import { isObject, objectOf, parseJson } from "../../lib/json/json.ts";
import { few } from "../../lib/text/few.ts";
import { globMatches } from "../../lib/text/glob.ts";
import { printable } from "../../lib/text/printable.ts";
import { contentOf, type Persona } from "../../personas/persona.ts";
import type { PreviewUpload } from "../../personas/review/previews.ts";
import { filesOf } from "../../store/sqlite/knowledge/files.ts";
import { refusal, type Server } from "../chat/client.ts";
import { type ServerOptions, serverOf } from "../chat/server.ts";
import { CommandError, type Context, type ExitCode, keyless, printDiagnostics, withConfig } from "../context.ts";
import { loadPersonas } from "../personas.ts";
import { printJson } from "../print/print-json.ts";
import { formatTable } from "../print/table.ts";

type Options = ServerOptions & { readonly json?: boolean };
type PushOptions = Options & { readonly label: string; readonly days?: number };

type Shown = {
  readonly label: string;
  readonly personas: readonly { readonly id: string; readonly version: string }[];
  readonly key_name: string;
  readonly ends_at: string;
};

/** What the index of a server takes of one file. */
const maxTextBytes = 4 * 1024 * 1024;

/** @param patterns ids of personas, or globs over them; none: all of the folder */
export function pushPreview(
  context: Context,
  patterns: readonly string[],
  { label, days, json, ...server }: PushOptions,
): Promise<ExitCode> {
  return withConfig(
    context,
    async (config) => {
      const { io } = context;
      const { personas, errors, folder, from } = await loadPersonas(context, config.personas);
      if (errors.length > 0) {
        printDiagnostics(io, errors);
        throw new CommandError("Nothing was pushed: a preview is of a folder without faults.");
      }
      if (folder === undefined)
        throw new CommandError(
          `There is nothing to preview in ${config.personas.folder}: the personas are those of ${from}.`,
        );
      const wanted = personas.filter(({ id }) => patterns.length === 0 || patterns.some((one) => globMatches(one, id)));
      const lost = patterns.find((one) => !wanted.some(({ id }) => globMatches(one, id)));
      if (lost !== undefined || wanted.length === 0)
        throw new CommandError(`There is no persona '${printable(lost ?? "")}' in ${from}.`);
      const upload = uploadOf(folder, wanted);
      const query = days === undefined ? "" : `?days=${days}`;
      const found = await serverOf(context, config, server);
      const path = `/v1/previews/${encodeURIComponent(label)}${query}`;
      const pushed = (await askServer(found, "PUT", path, upload)) as unknown as Shown;
      if (json === true) printJson(io, pushed);
      else {
        const count = pushed.personas.length === 1 ? "1 persona" : `${pushed.personas.length} personas`;
        io.stdout.write(`${count} until ${pushed.ends_at}:\n`);
        for (const { id, version } of pushed.personas) io.stdout.write(`  ${id}@${label}  ${version}\n`);
      }
      return 0;
    },
    keyless,
  );
}

export function listPreviews(context: Context, { json, ...server }: Options): Promise<ExitCode> {
  return withConfig(
    context,
    async (config) => {
      const answer = await askServer(await serverOf(context, config, server), "GET", "/v1/previews");
      const previews = answer["data"] as Shown[];
      if (json === true) printJson(context.io, previews);
      else
        context.io.stdout.write(
          formatTable(
            ["label", "personas", "pushed by", "until"],
            previews.map((one) => [
              one.label,
              few(one.personas.map(({ id }) => id)),
              printable(one.key_name),
              one.ends_at,
            ]),
          ),
        );
      return 0;
    },
    keyless,
  );
}

export function dropPreview(context: Context, label: string, { json, ...server }: Options): Promise<ExitCode> {
  return withConfig(
    context,
    async (config) => {
      const path = `/v1/previews/${encodeURIComponent(label)}`;
      const dropped = await askServer(await serverOf(context, config, server), "DELETE", path);
      if (json === true) printJson(context.io, dropped);
      else context.io.stdout.write(`The preview '${label}' is gone.\n`);
      return 0;
    },
    keyless,
  );
}

/** Resolved: with includes and system files in place, and the texts of what they know. @throws CommandError */
function uploadOf(folder: string, personas: readonly Persona[]): PreviewUpload {
  return {
    personas: personas.map((persona) => {
      const { id, knowledge } = persona;
      const content = JSON.parse(contentOf(persona)) as object;
      return { id, content, ...(knowledge !== undefined && { knowledge: textsOf(folder, persona) }) };
    }),
  };
}

function textsOf(folder: string, persona: Persona) {
  const problems: string[] = [];
  const texts = filesOf(knowledgeCollection(folder, persona), problems).map(({ name, path }) => {
    try {
      if (statSync(path).size > maxTextBytes) throw new Error(`it is larger than ${maxTextBytes / 1_048_576} MiB`);
      return { file: name, text: new TextDecoder("utf-8", { fatal: true }).decode(readFileSync(path)) };
    } catch (error) {
      throw new CommandError(`${path}, which ${persona.id} knows, can't be read: ${(error as Error).message}`);
    }
  });
  if (problems.length > 0) throw new CommandError(`What ${persona.id} knows can't be read: ${problems.join("; ")}`);
  return texts;
}

/** @throws CommandError with the server's own words */
export async function askServer({ url, key, fetchOptions }: Server, method: string, path: string, body?: object) {
  const answer = await fetch(url + path, {
    ...fetchOptions,
    method,
    ...(body !== undefined && { body: JSON.stringify(body) }),
    headers: { authorization: `Bearer ${key}`, ...(body !== undefined && { "content-type": "application/json" }) },
    redirect: "manual",
  }).catch((error: Error) => {
    throw new CommandError(`The server at ${url} can't be reached: ${error.message}`);
  });
  if (answer.status !== 200) throw await refusal(answer);
  const parsed = objectOf(parseJson(await answer.text()));
  if (!isObject(parsed)) throw new CommandError(`${url}${path} answered with no JSON: is it a server of this program?`);
  return parsed;
}
