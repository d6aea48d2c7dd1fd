/** What the API's description says of the surfaces' own routes. */
import { Type } from "@sinclair/typebox";
import type { SurfaceName } from "../config/config.ts";
import { providers } from "../providers/registry.ts";
import { allExtras } from "../relay/accounts.ts";
import { ChatRequestBody } from "../wire/chat.ts";
import { Model, ModelList } from "../wire/models.ts";
import { describeOperation } from "./describe.ts";

const tags: Record<SurfaceName, string> = { orchestrator: "Orchestrator", gateway: "Gateway" };
const exampleModel: Record<SurfaceName, string> = { orchestrator: "troupe/guide", gateway: "openai/gpt-4.1-mini" };
const doors = [401, 403, 429, 500, 503];

const Completion = Type.Object(
  {
    id: Type.String(),
    object: Type.Literal("chat.completion"),
    created: Type.Integer(),
    model: Type.String(),
    choices: Type.Array(
      Type.Object(
        {
          index: Type.Integer(),
          message: Type.Object(
            { role: Type.Literal("assistant"), content: Type.Union([Type.String(), Type.Null()]) },
            { additionalProperties: true },
          ),
          finish_reason: Type.String(),
        },
        { additionalProperties: true },
      ),
    ),
    usage: Type.Object(
      { prompt_tokens: Type.Integer(), completion_tokens: Type.Integer(), total_tokens: Type.Integer() },
      { additionalProperties: true },
    ),
    metadata: Type.Optional(Type.Record(Type.String(), Type.String())),
  },
  { additionalProperties: true },
);

export function describeModelList(surface: SurfaceName): Record<string, unknown> {
  return describeOperation({
    tag: tags[surface],
    operationId: `${surface}ListModels`,
    summary: surface === "orchestrator" ? "The personas this key may use" : "The providers' models that are known here",
    response: { schema: ModelList },
    errors: doors,
  });
}

export function describeModel(surface: SurfaceName): Record<string, unknown> {
  return describeOperation({
    tag: tags[surface],
    operationId: `${surface}RetrieveModel`,
    summary: "One model by its id, with `/` as it is or as `%2F`",
    response: { schema: Model },
    parameters: [
      { name: "id", in: "path", required: true, schema: { type: "string" }, example: exampleModel[surface] },
    ],
    errors: [...doors, 404],
  });
}

export function describeCompletion(surface: SurfaceName): Record<string, unknown> {
  const messages = [{ role: "user", content: "Hello!" }];
  const model = exampleModel[surface];
  return describeOperation({
    tag: tags[surface],
    operationId: `${surface}CreateChatCompletion`,
    summary: "A chat completion, as one JSON or as a stream",
    description:
      surface === "orchestrator"
        ? "Calls the persona that `model` names."
        : "Calls the provider that `model` names. An upstream's error comes back byte for byte, with `x-troupe-error-source: upstream`.",
    body: {
      schema: Type.Intersect([ChatRequestBody, allExtras(providers)]),
      examples: {
        plain: { summary: "One JSON", value: { model, messages } },
        stream: {
          summary: "A stream",
          value: { model, messages, stream: true, stream_options: { include_usage: true } },
        },
      },
    },
    parameters: [
      {
        name: "service-request-id",
        in: "header",
        description:
          "Makes a retry safe: the same id and body are answered with the same bytes. `Idempotency-Key` is an alias.",
        schema: { type: "string", minLength: 1, maxLength: 255 },
      },
    ],
    response: { schema: Completion },
    streams: true,
    errors: [400, ...doors, 404, 408, 413, 415, 422, 504],
  });
}

const stored = {
  list: { summary: "Stored completions, a page at a time", errors: [400, ...doors] },
  get: { summary: "One stored completion", errors: [404, ...doors] },
  update: { summary: "Replaces the metadata of a stored completion", errors: [400, 404, 408, 413, 415, ...doors] },
  delete: { summary: "Deletes a stored completion; it can no longer be read or continued", errors: [404, ...doors] },
  messages: { summary: "The messages a stored completion was made from", errors: [400, 404, ...doors] },
} as const;

const paging = [
  { name: "after", in: "query", schema: { type: "string" }, description: "The `last_id` of the page before." },
  { name: "limit", in: "query", schema: { type: "integer", minimum: 1, maximum: 100, default: 20 } },
  { name: "order", in: "query", schema: { type: "string", enum: ["asc", "desc"], default: "asc" } },
];
const byId = { name: "id", in: "path", required: true, schema: { type: "string" } };

export function describeStored(surface: SurfaceName, what: keyof typeof stored): Record<string, unknown> {
  const one = what === "list" ? [] : [byId];
  const model = { name: "model", in: "query", schema: { type: "string" } };
  const pages = what === "list" ? [...paging, model] : what === "messages" ? paging : [];
  return describeOperation({
    tag: tags[surface],
    operationId: `${surface}StoredCompletion${what[0]!.toUpperCase()}${what.slice(1)}`,
    ...stored[what],
    parameters: [...one, ...pages],
    ...(what === "update"
      ? {
          body: {
            schema: Type.Object({ metadata: Type.Record(Type.String(), Type.String()) }),
            examples: { label: { summary: "A label", value: { metadata: { project: "atlas" } } } },
          },
        }
      : {}),
  });
}
