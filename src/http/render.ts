/** Renders a persona's call: the request that each of its models would be sent, and where each part of it came from. */

import { targetOf } from "../call/plan/orchestrator.ts";
import type { ProviderConfig } from "../config/config.ts";
import { type JsonObject, parseJson } from "../lib/json/json.ts";
import { truncate } from "../lib/text/truncate.ts";
import type { Clock } from "../lib/time/clock.ts";
import { type ComposedRequest, compose } from "../personas/compose/compose.ts";
import { type ComposedPart, type Origin, originsOf, type PersonaPlaces } from "../personas/compose/origins.ts";
import type { Additions } from "../personas/knowledge/additions.ts";
import type { Persona } from "../personas/persona.ts";
import type { Source } from "../protocols/body/source.ts";
import { chat } from "../protocols/chat/chat.ts";
import type { ChatRequest } from "../protocols/chat/schema.ts";
import { ApiError } from "../protocols/errors.ts";
import { parseModelId } from "../protocols/model-id.ts";
import type { Provider } from "../providers/provider.ts";
import { Accounts, usualConfig } from "../upstream/accounts.ts";
import { type BodyPart, bodyOrigins } from "../upstream/body-origins.ts";
import type { CallTools } from "../upstream/call.ts";
import { renderRequest } from "../upstream/render.ts";
import type { Target } from "../upstream/target.ts";

type RenderTools = Pick<CallTools, "media"> & {
  readonly clock: Clock;
  readonly configured: readonly ProviderConfig[];
  readonly providers: readonly Provider[];
  /** What knowledge and lorebook add. */
  readonly additions?: (persona: Persona, request: ChatRequest) => Promise<Additions | undefined>;
};

type RenderQuestion = {
  /** Or its variant. */
  readonly persona: Persona;
  /** A chat completion without `model`. */
  readonly request: JsonObject;
  /** `<provider>/<model>` in place of the persona's list. */
  readonly model?: string | undefined;
  /** Absent where the persona's files are not at hand. */
  readonly places?: PersonaPlaces | undefined;
};

export type RenderedModel = {
  /** `<provider>/<model>` */
  readonly model: string;
  /** `first`: the call goes there; `fallback`: where those before it fail; `unavailable`: its provider is not set up, so that it is passed over. */
  readonly use: "first" | "fallback" | "unavailable";
  readonly origin: Origin;
  /** Null where this program answers itself, where an error keeps it from being sent, and for an unavailable provider that has no usual address. */
  readonly request: {
    readonly method: string;
    readonly url: string;
    readonly headers: Readonly<Record<string, string>>;
    readonly body: string;
  } | null;
  readonly parts: readonly BodyPart[];
  readonly error?: { readonly code: string; readonly param: string; readonly message: string };
};

export type RenderedCall = {
  readonly persona: string;
  /** The request in the inner form, before a provider encodes it. */
  readonly composed: ComposedRequest;
  readonly parts: readonly ComposedPart[];
  readonly models: readonly RenderedModel[];
};

function asked(persona: Persona, request: JsonObject) {
  const parsed = { ...request, model: persona.id };
  const source: Source = { body: JSON.stringify(parsed), parsed };
  const call = chat.parse(source, { request: { headers: new Headers() }, path: "", query: new URLSearchParams() });
  return { call, source };
}

/** The tool by which skills are read is added as a call is made, with those by MCP. */
const withSkillTool = ({ skills }: Persona, composed: ComposedRequest): ComposedRequest =>
  skills === undefined ? composed : { ...composed, tools: [...(composed.tools ?? []), skills.tool] };

/**
 * The bodies alone, for whoever compares many: where their parts came from takes an encoding for each part.
 * @returns by model the JSON that is sent, or the reason for which nothing is; undefined where this program answers itself
 * @throws ApiError for what the call would be refused for
 */
export async function renderBodies(
  tools: Pick<RenderTools, "media" | "clock">,
  accounts: Accounts,
  { persona, request }: Pick<RenderQuestion, "persona" | "request">,
  signal: AbortSignal,
): Promise<{
  readonly composed: ComposedRequest;
  readonly bodies: ReadonlyMap<string, { readonly body: unknown } | string | undefined>;
}> {
  const { call, source } = asked(persona, request);
  const { store: _, ...composed } = withSkillTool(persona, compose(persona, call.request));
  const bodies = new Map<string, { body: unknown } | string | undefined>();
  for (const model of persona.targets) {
    if (accounts.find(parseModelId(model)?.namespace ?? "") === undefined) {
      bodies.set(model, "its provider is not set up");
      continue;
    }
    try {
      const rendered = await renderRequest(tools, targetOf(accounts, model, composed, source), signal);
      bodies.set(model, rendered && { body: parseJson(rendered.body) });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      bodies.set(model, error.message);
    }
  }
  return { composed, bodies };
}

/** @throws ApiError for what the call would be refused for */
export async function renderCall(
  tools: RenderTools,
  { persona, request, model, places }: RenderQuestion,
  signal: AbortSignal,
): Promise<RenderedCall> {
  const { call, source } = asked(persona, request);
  if (call.request.previous_response_id != null)
    throw ApiError.unsupported("previous_response_id", "previous_response_id: stored turns are not rendered.");
  const additions = await tools.additions?.(persona, call.request);
  const { store: _, ...composed } = withSkillTool(persona, compose(persona, call.request, additions));
  const parts = originsOf(persona, call.request, composed, places, additions);
  const accounts = new Accounts(tools.configured, tools.providers);
  const media = fetchedOnce(tools.media);
  const models: RenderedModel[] = [];
  for (const [at, id] of (model === undefined ? persona.targets : [model]).entries()) {
    const isSetUp = accounts.find(parseModelId(id)?.namespace ?? "") !== undefined;
    const origin: Origin = {
      kind: "model",
      ...(model === undefined && { field: `model[${at}]`, ...places?.locate(["model", at]) }),
    };
    const isFirst = !models.some(({ use }) => use !== "unavailable");
    const use = !isSetUp ? "unavailable" : isFirst ? "first" : "fallback";
    const known = isSetUp ? accounts : withUsual(tools, id);
    const rendered = { model: id, use, origin } as const;
    if (known === undefined) {
      models.push({ ...rendered, request: null, parts: [] });
      continue;
    }
    try {
      models.push({
        ...rendered,
        ...(await renderModel({ ...tools, media }, known, rendered, { composed, parts, source }, signal)),
      });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      const { code, param, message } = error;
      models.push({ ...rendered, request: null, parts: [], error: { code, param, message } });
    }
  }
  return { persona: persona.id, composed, parts, models };
}

type Composed = {
  readonly composed: ComposedRequest;
  readonly parts: readonly ComposedPart[];
  readonly source: Source;
};

async function renderModel(
  tools: Pick<CallTools, "media"> & { readonly clock: Clock },
  accounts: Accounts,
  { model, origin }: Pick<RenderedModel, "model" | "origin">,
  { composed, parts, source }: Composed,
  signal: AbortSignal,
): Promise<Pick<RenderedModel, "request" | "parts">> {
  const target = targetOf(accounts, model, composed, source);
  const rendered = await renderRequest(tools, target, signal);
  if (rendered === undefined) return { request: null, parts: [] };
  const encode = async (changed: ComposedRequest) => {
    try {
      // Without the source: a changed part must not be copied from there.
      const other = await renderRequest(tools, inFormatOf(target, targetOf(accounts, model, changed)), signal);
      return parseJson(other!.body);
    } catch (error) {
      if (error instanceof ApiError) return undefined;
      throw error;
    }
  };
  const named = { name: target.call.model, origin };
  return { request: rendered, parts: await bodyOrigins(parseJson(rendered.body), composed, parts, named, encode) };
}

/** A changed request might go by another format, in which nothing stands where it stood. */
function inFormatOf({ call: shown }: Target, changed: Target): Target {
  const { provider, call } = changed;
  return provider.kind === "remote" && provider.alike !== undefined
    ? { ...changed, call: provider.alike(call, shown) }
    : changed;
}

/** Fetches nothing twice. */
export function fetchedOnce(media: CallTools["media"]): CallTools["media"] {
  const fetched = new Map<string, ReturnType<typeof media.fetch>>();
  return {
    fetch(wanted, signal) {
      const urls = JSON.stringify(wanted.map(({ url }) => url));
      const found = fetched.get(urls) ?? media.fetch(wanted, signal);
      fetched.set(urls, found);
      return found;
    },
  };
}

/** With a provider that is not set up as it would be by its key alone; undefined where it has no usual address. */
function withUsual({ configured, providers }: RenderTools, model: string): Accounts | undefined {
  const name = parseModelId(model)?.namespace;
  const provider = providers.find((one) => one.name === name);
  const usual = provider && usualConfig(provider);
  return usual && new Accounts([...configured, usual], providers);
}

/**
 * @param name of one of its variants
 * @returns the persona with the variant's fields: the one that is named; else the one whose share is the largest, as of a caller nobody knows
 * @throws ApiError invalid_value for an unknown name
 */
export function variantOf(persona: Persona, name: string | undefined): { persona: Persona; variant?: string } {
  const { variants = [] } = persona;
  const named = variants.find((one) => one.name === name);
  if (name !== undefined && named === undefined) {
    const known = variants.length === 0 ? "it has none" : `it has ${variants.map((one) => one.name).join(", ")}`;
    throw ApiError.invalidValue("variant", `variant: this persona has no variant '${truncate(name)}'; ${known}.`);
  }
  const chosen = named ?? variants.toSorted((a, b) => b.weight - a.weight)[0];
  return chosen === undefined ? { persona } : { persona: chosen.persona, variant: chosen.name };
}
