/** The route of Messages clients to a cloud: what it does not take of their betas, their members and their version stays here. */

import type { Cloud } from "../../facts/clouds.ts";
import { derive, isObject, type JsonObject, objectOf, withEach } from "../../lib/json/json.ts";
import type { Call, NativeRoute, PassedHeaders } from "../provider.ts";
import { cloudTakes } from "./native.ts";
import { betasIn, isSince } from "./request.ts";
import { oldestVersion, samplingEndsWith } from "./versions.ts";

/** The version that goes up for the one that a caller names. */
type VersionFor = (asked: string, call: Call) => string;

/** For upstreams that follow the format as it was before: a body of a newer version is one of theirs too. */
export const asOldest: VersionFor = (asked) => (isSince(asked, samplingEndsWith) ? oldestVersion : asked);

/** A route with its callers' headers as they go up, so that a body is fitted to those. */
export function withHeaders(
  route: NativeRoute,
  taken: (headers: PassedHeaders, call: Call) => PassedHeaders,
): NativeRoute {
  const { fit, members, counter } = route;
  return {
    ...route,
    encode: (body, call, headers) => route.encode(body, call, taken(headers, call)),
    ...(fit && { fit: (body, call, headers) => fit(body, call, taken(headers, call)) }),
    ...(members && { members: (fields, call, headers) => members(fields, call, taken(headers, call)) }),
    ...(counter && { counter: (body, call, headers) => counter(body, call, taken(headers, call)) }),
  };
}

export const versioned = (
  { "anthropic-version": asked, ...others }: PassedHeaders,
  call: Call,
  versionFor: VersionFor,
) => (asked === undefined ? others : { ...others, "anthropic-version": versionFor(asked, call) });

export function onCloud(given: NativeRoute, cloud: Cloud, versionFor: VersionFor = (asked) => asked): NativeRoute {
  const { betaAs, lackedMembers: lacked } = cloud;
  const taken = (headers: PassedHeaders, call: Call): PassedHeaders => {
    const { "anthropic-beta": _, ...others } = versioned(headers, call, versionFor);
    const betas = betasIn(headers).flatMap((beta) => betaAs(beta) ?? []);
    return betas.length === 0 ? others : { ...others, "anthropic-beta": [...new Set(betas)].join(",") };
  };
  const route = withHeaders(given, taken);
  const { fit } = route;
  return {
    ...route,
    takes: cloudTakes,
    fit(body, call, headers) {
      const known = without(body, lacked);
      return fit?.(known, call, headers) ?? known;
    },
    leftOut: (body, headers) => [
      ...betasIn(headers).flatMap((beta) => (betaAs(beta) !== undefined ? [] : [`anthropic-beta: ${beta}`])),
      ...lacked.filter((member) => without(body, [member]) !== body).map((member) => member.replace("**.", "")),
    ],
  };
}

/** @returns the body itself where it holds none of them */
function without(body: JsonObject, paths: readonly string[]): JsonObject {
  let next = body;
  for (const path of paths) next = path.startsWith("**.") ? inBlocks(next, path.slice(3)) : at(next, path.split("."));
  return next;
}

/** @param path `name`, `name.name`, or `name[]` for each of a list */
function at(object: JsonObject, [step = "", ...rest]: readonly string[]): JsonObject {
  const name = step.replace("[]", "");
  const value = object[name];
  if (value === undefined) return object;
  if (rest.length === 0) {
    const { [name]: _, ...others } = object;
    return derive(object, others);
  }
  const within = (one: unknown) => (isObject(one) ? at(one, rest) : one);
  const next = step.endsWith("[]") ? (Array.isArray(value) ? withEach(value, within) : value) : within(value);
  return next === value ? object : derive(object, { ...object, [name]: next });
}

/** The places where blocks stand that may end a cached prefix. */
const containers = ["system", "tools", "messages", "content"];

function inBlocks(object: JsonObject, path: string): JsonObject {
  let next = objectOf(object["cache_control"]) === undefined ? object : at(object, path.split("."));
  for (const name of containers) {
    const list = next[name];
    if (!Array.isArray(list)) continue;
    const fit = withEach(list, (one) => (isObject(one) ? inBlocks(one, path) : one));
    if (fit !== list) next = derive(object, { ...next, [name]: fit });
  }
  return next;
}
