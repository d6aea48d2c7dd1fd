/** OpenAPI operations of calls: routes that ask a model. */
import { type TSchema, Type } from "@sinclair/typebox";
import { OrNull } from "../../api/shape.ts";
import type { SurfaceName } from "../../config/config.ts";
import { type DescribedOperation, describeOperation, errorSchema, eventStream, keyed, tags } from "./describe.ts";

export const exampleModel: Record<SurfaceName, string> = { orchestrator: "troupe/guide", gateway: "builtin/echo" };
export const withVariables = { model: "troupe/translator", variables: { language: "French" } };

/** A rule between members, where generators of clients look for none: beside members, it would split a class into one for each of its cases. */
export const ruled = (schema: TSchema, rule: object): TSchema => ({ ...schema, not: { not: rule } });

/** A member of a persona's call. */
export const variables = Type.Optional(
  OrNull(
    Type.Record(Type.String(), Type.String(), {
      description: "Values for the variables that the persona declares; they may stand in extra_body too.",
    }),
  ),
);

export const header = (name: string, description: string, schema: object = {}) => ({
  name,
  in: "header",
  schema: { type: "string", ...schema },
  description,
});
const requestId = { minLength: 1, maxLength: 255, pattern: "^[!-~]+$" };
export const callHeaders = [
  header(
    "service-request-id",
    "Makes a retry safe: the same id and body are answered with the same bytes, and called once.",
    requestId,
  ),
  header("Idempotency-Key", "Another name for service-request-id, which wins.", requestId),
  header(
    "Last-Event-ID",
    "With a service-request-id: the id of the last event that arrived. The stream goes on behind it; from its beginning where the id is of another stream.",
  ),
];

/** A provider's errors on the gateway: any status, any form. @param words of how they come */
export const upstreamError = (words = "An error of the provider, byte for byte.") => ({
  description: words,
  headers: { "X-Troupe-Error-Source": { description: "upstream", schema: { type: "string" } } },
});
export const ownOrUpstreams = {
  "application/json": { schema: { anyOf: [errorSchema, { description: "A provider's own error, as it came." }] } },
  "*/*": {},
};

/** A format's errors where it has a form of its own for them. */
export type ErrorForm = { readonly body: TSchema; readonly upstream: string };

/** @param form absent: that of chat completions, and on the gateway whatever a provider answers */
function callErrors(surface: SurfaceName, form?: ErrorForm): Pick<DescribedOperation, "errorContent" | "others"> {
  const isGateway = surface === "gateway";
  const content = form && { "application/json": { schema: form.body } };
  return {
    ...(isGateway && { others: { default: upstreamError(form?.upstream) }, errorContent: ownOrUpstreams }),
    ...(content !== undefined && { errorContent: content }),
  };
}

/** One format's call, as far as it differs from the others'. */
export type DescribedCall = Pick<
  DescribedOperation,
  "summary" | "description" | "body" | "examples" | "response" | "responseDescription" | "links" | "also" | "parameters"
> & {
  /** The operation's name behind the surface's. */
  readonly name: string;
  readonly errorForm?: ErrorForm;
  /** An example of the event stream. */
  readonly streamed?: string;
};

export function describeCall(surface: SurfaceName, call: DescribedCall): Record<string, unknown> {
  const { name, errorForm, streamed, parameters = [], ...operation } = call;
  return describeOperation({
    ...operation,
    tag: tags[surface],
    operationId: `${surface}${name}`,
    parameters: [...callHeaders, ...parameters],
    headers: {
      "X-Troupe-Provider":
        "The provider that answers, as the configuration names it. Missing where a persona hides it.",
      "X-Troupe-Upstream-Model": "The provider's own name of the model. Missing where a persona hides it.",
      "X-Troupe-Upstream-Format": "The format in which the provider was asked. Missing where a persona hides it.",
      "X-Troupe-Attempts": "How many times a provider was called for this answer. Missing where a persona hides it.",
      "Idempotent-Replayed": "true: this is the answer of an earlier request with the same service-request-id.",
      "Service-Request-Id": "The request's own, said back.",
      ...(surface === "orchestrator" && { "X-Troupe-Persona-Version": "The version of the persona that answers." }),
    },
    ...(streamed !== undefined && { also: eventStream(streamed) }),
    errors: [400, ...keyed, 404, 408, 413, 415, 422, 504],
    ...callErrors(surface, errorForm),
  });
}

/** Counts of a format's tokens, by a route that calls no model. */
export function describeCount(
  surface: SurfaceName,
  operation: Omit<DescribedOperation, "tag" | "headers" | "errors" | "description">,
  form?: ErrorForm,
): Record<string, unknown> {
  return describeOperation({
    ...operation,
    tag: tags[surface],
    description:
      "Counted by the provider where it has a counter; else estimated, and marked by x-troupe-estimated: true, or length.",
    headers: { "X-Troupe-Estimated": "true: no provider counted." },
    errors: [400, ...keyed, 404, 408, 413, 415],
    ...(form && callErrors(surface, form)),
  });
}
