/** What a call of the playground would send: it is planned and encoded as any other, and goes no further. */
import type { Caller } from "../../auth/keys.ts";
import type { RequestContext } from "../../call/context.ts";
import { parseCall } from "../../call/read/read.ts";
import type { Services } from "../../call/services.ts";
import type { Plan, Surface } from "../../call/surface.ts";
import { fetchedOnce } from "../../http/render.ts";
import { isObject, type JsonObject, parseJson } from "../../lib/json/json.ts";
import { formatPath, type PathPart } from "../../lib/json/schema-errors.ts";
import type { Source } from "../../protocols/body/source.ts";
import { chat } from "../../protocols/chat/chat.ts";
import { ApiError } from "../../protocols/errors.ts";
import { formatModelId } from "../../protocols/model-id.ts";
import { mark } from "../../upstream/body-origins.ts";
import { type RenderedRequest, renderRequest } from "../../upstream/render.ts";
import type { Target } from "../../upstream/target.ts";

/** The most models of one call that are shown. */
const maxTargets = 20;
/** The most fields of a body that are looked for in what is sent. */
const maxFields = 64;
/** In a larger body they are not looked for, as it is encoded once for each. */
const maxTraced = 256 * 1024;
/** The most that is shown of one text. */
const maxShown = 1_000_000;
/** The most places that are named for one field. */
const maxPlaces = 20;

type Fate = "unchanged" | "changed" | "no_effect";
type Field = { readonly name: string; readonly fate: Fate; readonly to: readonly string[] };
type Question = {
  readonly services: Services;
  readonly context: RequestContext;
  readonly surface: Surface;
  readonly caller: Caller;
  readonly source: Source;
};

/** @param question whose source has no large strings left out @throws ApiError for what the call would be refused for */
export async function previewOfCall({ services, context, surface, caller, source }: Question) {
  const { parsed } = source;
  const { signal } = context.request;
  const { request } = (await parseCall({ services, context, surface, caller }, chat, source)).call;
  if (request.previous_response_id != null)
    throw ApiError.unsupported("previous_response_id", "previous_response_id: stored turns are not shown here.");
  const plan = await surface.plan(services, caller, request, source);
  const tools = { clock: services.clock, media: fetchedOnce(services.media) };
  const send = (target: Target) => renderRequest(tools, target, signal);
  /** What another body would send to the same model; undefined where that is refused. */
  const sendOther = async (other: JsonObject, at: number): Promise<RenderedRequest | undefined> => {
    try {
      const called = chat.parse({ parsed: other, body: JSON.stringify(other) }, context).request;
      const planned = await surface.plan(services, caller, called, { parsed: other, body: JSON.stringify(other) });
      return planned.targets[at] && (await send(planned.targets[at]));
    } catch (error) {
      if (error instanceof ApiError) return undefined;
      throw error;
    }
  };
  const requests = [];
  for (const [at, target] of plan.targets.slice(0, maxTargets).entries()) {
    const { account, provider, call } = target;
    const format = provider.kind === "local" ? null : (provider.formatOf?.(call) ?? provider.format);
    const composed = JSON.stringify(call.request).length > maxShown ? null : call.request;
    const model = formatModelId({ namespace: account.name, name: call.model });
    const shown = { model, use: useOf(plan, target, at), format, composed };
    try {
      const sent = await send(target);
      const traced = sent && source.body.length <= maxTraced ? await fieldsOf(parsed, sent, at, sendOther) : nothing;
      requests.push({ ...shown, request: sent === undefined ? null : cut(sent), ...traced });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      const { code, param, message } = error;
      requests.push({ ...shown, request: null, ...nothing, error: { code, param, message } });
    }
  }
  const { persona, variant, strategy } = plan;
  return {
    object: "playground.preview",
    model: request.model,
    surface: surface.name,
    persona:
      persona === undefined ? null : { id: persona.id, version: persona.version, variant: variant?.name ?? null },
    strategy: strategy ?? null,
    requests,
  };
}

const nothing: { readonly fields: readonly Field[] | null; readonly added: readonly string[] | null } = {
  fields: null,
  added: null,
};

function useOf({ strategy }: Plan, { pool }: Target, at: number): "first" | "fallback" | "pooled" {
  if (strategy !== undefined) return "pooled";
  if (at > 0) return "fallback";
  return pool === undefined ? "first" : "pooled";
}

const cut = ({ method, url, headers, body }: RenderedRequest) => ({
  ...{ method, url, headers, body: body.slice(0, maxShown) },
  is_cut: body.length > maxShown,
});

/** A body without the field, or with another value where a call needs one. */
function without(parsed: JsonObject, name: string): JsonObject {
  const { [name]: value, ...rest } = parsed;
  if (name === "messages") return { ...rest, messages: [{ role: "user", content: mark }] };
  if (name !== "variables" || !isObject(value)) return rest;
  const others = Object.entries(value).map(([key, one]) => [key, typeof one === "string" ? one + mark : one]);
  return { ...rest, variables: Object.fromEntries(others) };
}

/**
 * Encoding answers this itself: a field decides what changes in the request when it is left out.
 * @returns null for a body that is no JSON object
 */
async function fieldsOf(
  parsed: JsonObject,
  sent: RenderedRequest,
  at: number,
  sendOther: (other: JsonObject, at: number) => Promise<RenderedRequest | undefined>,
): Promise<typeof nothing> {
  const body = parseJson(sent.body);
  if (!isObject(body)) return nothing;
  const fields: Field[] = [];
  for (const name of Object.keys(parsed).slice(0, maxFields)) {
    if (name === "model") continue;
    const value = parsed[name];
    const other = await sendOther(without(parsed, name), at);
    const isSame = Object.hasOwn(body, name) && Bun.deepEquals(body[name], value);
    const places = other === undefined ? (isSame ? [name] : []) : placesOf(sent, other);
    const fate = isSame ? "unchanged" : places.length > 0 || other === undefined ? "changed" : "no_effect";
    fields.push({ name, fate, to: isSame ? [name] : places });
  }
  const made = new Set(fields.flatMap(({ to }) => to.map((place) => /^[^.[]*/.exec(place)![0])));
  return { fields, added: Object.keys(body).filter((name) => name !== "model" && !made.has(name)) };
}

/** Differ with every body. */
const ofEveryBody = /^(?:content-length|authorization|x-amz-.*)$/i;

function placesOf(sent: RenderedRequest, other: RenderedRequest): string[] {
  const places: string[] = [];
  const compare = (one: unknown, two: unknown, path: readonly PathPart[]): void => {
    if (places.length >= maxPlaces || Bun.deepEquals(one, two)) return;
    const both = Array.isArray(one) && Array.isArray(two) && one.length === two.length;
    if (both) for (const [at, value] of one.entries()) compare(value, two[at], [...path, at]);
    else if (isObject(one) && isObject(two))
      for (const name of new Set([...Object.keys(one), ...Object.keys(two)]))
        compare(one[name], two[name], [...path, name]);
    else places.push(formatPath(path));
  };
  compare(parseJson(sent.body), parseJson(other.body), []);
  if (sent.url !== other.url) places.push("(url)");
  for (const name of new Set([...Object.keys(sent.headers), ...Object.keys(other.headers)]))
    if (!ofEveryBody.test(name) && sent.headers[name] !== other.headers[name]) places.push(`(header ${name})`);
  return places;
}
