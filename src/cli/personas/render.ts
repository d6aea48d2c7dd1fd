/** `troupe personas render`: what a call of a persona would send to each of its models, and where each part came from. */
import type { Config } from "../../config/config.ts";
import { type RenderedCall, type RenderedModel, renderCall, variantOf } from "../../http/render.ts";
import { wireBytes } from "../../lib/http/client.ts";
import type { JsonObject } from "../../lib/json/json.ts";
import { printable } from "../../lib/text/printable.ts";
import { systemClock } from "../../lib/time/clock.ts";
import type { Origin } from "../../personas/compose/origins.ts";
import { type PersonaText, personaTextOf, placesOf } from "../../personas/file/source.ts";
import { type Persona, personaFrom } from "../../personas/persona.ts";
import { nameOf, splitReference } from "../../personas/versions/references.ts";
import { ApiError } from "../../protocols/errors.ts";
import { providers } from "../../providers/registry.ts";
import type { BodyPart } from "../../upstream/body-origins.ts";
import { MediaFetcher } from "../../upstream/media.ts";
import { withStore } from "../commands/storage.ts";
import { CommandError, type Context, type ExitCode, withConfig } from "../context.ts";
import { findServed } from "../personas.ts";
import { printJson } from "../print/print-json.ts";
import { readInput, readMessages } from "../print/request-fields.ts";
import { formatTable } from "../print/table.ts";
import { additionsFrom } from "./knowledge.ts";
import { versionFinder } from "./versions.ts";

type RenderOptions = {
  readonly input?: string;
  readonly messages?: string;
  readonly variables?: Readonly<Record<string, string>>;
  readonly set?: JsonObject;
  readonly model?: string;
  readonly variant?: string;
  readonly user?: string;
  readonly stream?: boolean;
  readonly json?: boolean;
};

/** @param name the persona's id, alone or with a version or a label, which are read from the store */
export function renderPersona(context: Context, name: string, options: RenderOptions): Promise<ExitCode> {
  if (splitReference(name) === undefined)
    return withConfig(context, async (config) => {
      const found = await findServed(context, config, name);
      return render(context, config, found, await personaTextOf(found, config.personas.folder), options);
    });
  let code: ExitCode = 0;
  const rendering = withStore(context, async (store, config) => {
    const { find } = await versionFinder(context, config, store);
    const { id, version, content, source } = await find(name);
    const text = source === null ? undefined : { file: nameOf({ id, version }), text: source };
    code = await render(context, config, personaFrom(content, id), text, options);
  });
  return rendering.then((opened) => opened || code);
}

async function render(
  context: Context,
  config: Config,
  found: Persona,
  source: PersonaText | undefined,
  options: RenderOptions,
): Promise<ExitCode> {
  const { folder } = config.personas;
  const request = await requestOf(context, options);
  const tools = {
    clock: systemClock,
    media: new MediaFetcher(),
    configured: config.providers,
    providers,
    additions: additionsFrom(folder),
  };
  let rendered: RenderedCall;
  try {
    const { persona, variant } = variantOf(found, options.variant);
    const places = source && (await placesOf(found, source, folder, variant));
    const question = { persona, request, model: options.model, places };
    rendered = await renderCall(tools, question, new AbortController().signal);
  } catch (error) {
    if (error instanceof ApiError) throw new CommandError(`The call would be refused: ${error.message}`);
    throw error;
  }
  if (options.json) printJson(context.io, rendered);
  else
    context.io.stdout.write(printable(rendered.models.map((model) => formatModel(model, context.io.cwd)).join("\n\n")));
  return rendered.models.some(({ error }) => error !== undefined) ? 1 : 0;
}

async function requestOf({ io }: Context, options: RenderOptions): Promise<JsonObject> {
  const { input, messages, variables, user, stream, set } = options;
  const given = messages === undefined ? {} : readMessages(io, messages);
  const said = input === undefined ? (messages === undefined ? "Hello!" : undefined) : await readInput(io, input);
  const earlier = (given["messages"] ?? []) as unknown[];
  return {
    ...given,
    ...set,
    messages: said === undefined ? earlier : [...earlier, { role: "user", content: said }],
    ...(variables && { variables: { ...(given["variables"] as object | undefined), ...variables } }),
    ...(user !== undefined && { user }),
    ...(stream && { stream }),
  };
}

const uses = {
  first: "the call goes here",
  fallback: "where those before it fail",
  unavailable: "its provider is not set up",
};

function formatModel({ model, use, request, parts, error }: RenderedModel, cwd: string): string {
  const isUnavailable = use === "unavailable";
  const more =
    request && isUnavailable
      ? "; it would be sent"
      : request || error || isUnavailable
        ? ""
        : "; this program answers itself";
  const title = `# ${model}: ${uses[use]}${more}\n`;
  if (error !== undefined) return `${title}\nerror: ${error.message}\n`;
  if (request === null) return title;
  const [head] = wireBytes(request).toString().split("\r\n\r\n", 1);
  const lines = head!.replaceAll("\r\n", "\n").replace(/^(\S+) \S+/, `$1 ${request.url}`);
  return `${title}\n${lines}\n\n${request.body}\n\n${formatTable(
    ["part", "value", "from"],
    parts.flatMap((part) => rowsOf(part, cwd)),
  )}`;
}

function rowsOf({ path, value, origins, segments }: BodyPart, cwd: string): string[][] {
  const from = (origin: Origin) => formatOrigin(origin, cwd);
  if (segments === undefined) return [[path, shown(value), origins.map(from).join(" + ")]];
  return segments.map(({ text, origin }, at) => [at === 0 ? path : "", shown(text), from(origin)]);
}

const maxShown = 48;

function shown(value: unknown): string {
  const text = JSON.stringify(value);
  return text.length <= maxShown ? text : `${text.slice(0, maxShown - 1)}…`;
}

/** Files of the current folder are named from there. */
function formatOrigin({ kind, field, file, line, column, capped }: Origin, cwd: string): string {
  const name = file?.startsWith(`${cwd}/`) ? file.slice(cwd.length + 1) : file;
  const place = name === undefined ? "" : `${name}:${line}:${column} `;
  const what = capped === undefined ? "" : `, which lowers ${JSON.stringify(capped)}`;
  switch (kind) {
    case "provider":
      return "the provider's rule";
    case "caller":
      return `the request's ${field}`;
    case "variable":
      return file === undefined ? `the request's ${field}` : `${place}${field}`;
    case "model":
      return field === undefined ? "--model" : `${place}${field}`;
    default:
      return `${place}${field ?? kind}${what}`;
  }
}
