/** The native route of a call: where the upstream speaks the client's format, its body is patched and passed on. */
import type { JsonObject } from "../../lib/json/json.ts";
import { withoutFields } from "../../lib/json/without-fields.ts";
import { truncate } from "../../lib/text/truncate.ts";
import { patchBody } from "../../protocols/body/patched-body.ts";
import { asCame, respell, type Source } from "../../protocols/body/source.ts";
import { withoutMaker } from "../../protocols/hidden-maker.ts";
import type { NativeChange, NativeForm, ParsedCall, Protocol } from "../../protocols/protocol.ts";
import type { Call, NativeBody, NativeRoute, PassedHeaders } from "../../providers/provider.ts";
import type { NativeCall } from "../../upstream/call.ts";
import type { Target } from "../../upstream/target.ts";
import type { Conversation } from "../plan/conversation.ts";
import { sourcesOf } from "../plan/knowledge.ts";
import { inClientsPlace } from "../relay/errors.ts";
import type { Writer } from "../relay/writer.ts";
import type { CallScope } from "../scope.ts";
import type { Services } from "../services.ts";
import type { PersonaChange, Plan } from "../surface.ts";

/** @throws ApiError for what the client's format has and no other */
export function refuseNativeOnly(call: ParsedCall<unknown>, target: Target): void {
  const { nativeOnly, outOfRange, nativeTools } = call;
  const refusal =
    nativeOnly ??
    (outOfRange && !speaksChat(target) ? outOfRange : undefined) ??
    (target.account.unsupportedTools === "drop" ? undefined : nativeTools);
  if (refusal === undefined) return;
  throw inClientsPlace(refusal);
}

const speaksChat = ({ provider, call }: Target): boolean =>
  provider.kind === "remote" && (provider.formatOf?.(call) ?? provider.format) === "chat";

const noChange: PersonaChange = { before: [], fields: {} };

/** @returns undefined where the call has to be translated: the upstream does not speak the client's format, or not about this */
export function nativeCall(
  { services, context, surface: { showsUpstream }, asked, writer }: CallScope,
  { plan, conversation }: { readonly plan: Plan; readonly conversation: Conversation },
  { provider, account, pool, call: upstreamCall }: Target,
): NativeCall | undefined {
  const { protocol } = writer;
  const { native } = protocol;
  const route = provider.kind === "remote" && native && provider.native?.(protocol.name, upstreamCall);
  if (!native || !route) return undefined;
  const { call, source } = asked;
  const mayHold = plan.upstreamMayHold && route.keepsNothing !== true;
  const isHeld = mayHold && conversation.isHeldBy({ account, pool });
  const earlier = isHeld ? undefined : conversation.earlier;
  // The earlier messages of a conversation that is kept here are in the inner form alone: it is translated, where it can be.
  const said = earlier && (isNativeByTools(call) ? route.earlier?.(earlier) : undefined);
  if (earlier !== undefined && said === undefined) return undefined;
  const headers = passedHeaders(protocol, context.request.headers);
  const going = { route, call: upstreamCall, headers };
  const planned = nativeChange(plan, route, upstreamCall, headers);
  if (planned === undefined) return undefined;
  // A background answer is followed here: the upstream's connection is the call.
  const isBackground = protocol.stored?.isBackground(call.options) === true;
  const fields = isBackground ? { ...planned.fields, background: undefined, stream: true } : planned.fields;
  const change: NativeChange = { ...planned, fields, earlier: said };
  const added = plan.additions && sourcesOf(plan.additions);
  let patched = patchedBody(native, going, source, change);
  if (patched === undefined) return undefined;
  const ownEcho =
    (plan.change ?? said) && native.ownEcho?.(call.options, source.parsed, patched, planned.before, added);
  const hides = context.persona?.hidesUpstream === true;
  if (route.leftOut !== undefined) tellLeftOut(services, account.name, route.leftOut(source.parsed, headers));
  return {
    mayHold,
    reading: {
      format: protocol.name,
      route,
      passesFaults: showsUpstream,
      endsWithStream: native.endsWithStream === true,
      ownEcho: hides ? oneAfterOther(ownEcho, withoutMaker(protocol.name, call.request.model)) : ownEcho,
      shownWhole: native.shownWhole,
      encoder: encoderOf(writer),
    },
    encode(encoded) {
      // Once more, where large strings had to be restored in between.
      const body = patched ?? patchedBody(native, going, source, change)!;
      patched = undefined;
      return route.encode(writtenAs(source, body), encoded, headers);
    },
  };
}

type Rewrite = NonNullable<NativeCall["reading"]["ownEcho"]>;

const oneAfterOther = (first: Rewrite | undefined, next: Rewrite | undefined): Rewrite | undefined =>
  first === undefined || next === undefined ? (first ?? next) : (data) => next(first(data));

/** Says once for each account and name what its provider does not take: clients send the same with every call. */
function tellLeftOut({ log, toldOnce }: Services, provider: string, leftOut: readonly string[]): void {
  for (const name of leftOut) {
    const left_out = truncate(name);
    if (toldOnce.takes(`${provider} ${left_out}`))
      log.warn("left out of requests what the provider does not take", { provider, left_out });
  }
}

/** Holds nothing of the request. */
const encoderOf = (writer: Writer) => () => writer.nativeEncoder();

/** Checks whether its tools alone keep it from being translated. */
const isNativeByTools = ({ nativeOnly, nativeTools }: ParsedCall<unknown>): boolean =>
  nativeOnly === undefined && nativeTools !== undefined;

/** @returns undefined where the provider would have to read its answer in another way than it comes */
export function nativeChange(
  plan: Plan,
  { members: membersOf, keepsNothing, takesAnyThinking, needsSignatures }: NativeRoute,
  call: Call,
  headers: PassedHeaders,
): NativeChange | undefined {
  const changed = plan.change?.() ?? noChange;
  const persona =
    call.leftOut === undefined ? changed : { ...changed, fields: withoutFields(changed.fields, call.leftOut) };
  const members = persona === noChange || membersOf === undefined ? {} : membersOf(persona.fields, call, headers);
  if (members === undefined) return undefined;
  const fields = keepsNothing === true ? { ...persona.fields, store: false } : persona.fields;
  const own = { anyThinking: takesAnyThinking, needsSignatures: needsSignatures?.(call) };
  return { model: call.model, ...persona, fields, members, ...own };
}

/** How a body goes to its upstream. */
type Going = { readonly route: NativeRoute; readonly call: Call; readonly headers: PassedHeaders };

/** @returns the client's body as the call's model takes it; undefined where the call has to be translated */
export function patchedBody(
  native: NativeForm<never>,
  { route, call, headers }: Going,
  { parsed }: Source,
  change: NativeChange,
): JsonObject | undefined {
  const patched = native.patch(parsed, change);
  if (patched === undefined || route.takes?.(patched) === false) return undefined;
  return route.fit?.(patched, call, headers) ?? patched;
}

/** A patched body, copied from its source as far as it did not change. */
export function writtenAs(source: Source, body: JsonObject): NativeBody {
  if (body === source.parsed) return asCame(source);
  return respell(source, body) ?? patchBody(source, body, (name) => [name]);
}

export function passedHeaders({ passedRequestHeaders = [] }: Protocol, headers: Headers): Record<string, string> {
  const passed: Record<string, string> = {};
  for (const name of passedRequestHeaders) {
    if (name.endsWith("*")) Object.assign(passed, headersBeginning(name.slice(0, -1), headers));
    else {
      const value = headers.get(name);
      if (value !== null) passed[name] = value;
    }
  }
  return passed;
}

const headersBeginning = (begin: string, headers: Headers): Record<string, string> =>
  Object.fromEntries([...headers].filter(([name]) => name.startsWith(begin)));
