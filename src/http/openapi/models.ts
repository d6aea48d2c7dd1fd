/** OpenAPI operations of the lists of models. */
import { Type } from "@sinclair/typebox";
import type { SurfaceName } from "../../config/config.ts";
import { ModelEntry, ModelEntryPage } from "../../protocols/generate-content/models.ts";
import { ModelInfo, ModelPage } from "../../protocols/messages/models.ts";
import { capabilityNames, Model, ModelList } from "../../protocols/models.ts";
import { exampleModel, header } from "./calls.ts";
import { describeOperation, errorSchema, keyed, tags } from "./describe.ts";
import { errorForm as googleForm } from "./generate-content.ts";
import { errorForm } from "./messages.ts";

const otherForms =
  "With an anthropic-version header, answers and errors are in Anthropic's form; with x-goog-api-client in Google's, as below /v1beta.";
const clientHeaders = [
  header("anthropic-version", "Of Anthropic's clients."),
  header("x-goog-api-client", "Of Google's clients."),
];
const modelPaging = [
  { name: "limit", in: "query", schema: { type: "integer", minimum: 1, maximum: 1000, default: 20 } },
  ...["after_id", "before_id"].map((name) => ({ name, in: "query", schema: { type: "string" } })),
].map((one) => ({ ...one, description: "In Anthropic's form alone: the other one has all models on one page." }));
const hasParameter = {
  name: "has",
  in: "query",
  description: `Only models that are known to have all of these, with commas between: ${capabilityNames.join(", ")}. A persona has what its first model has.`,
  schema: { type: "string" },
  example: "vision,tools",
};
const eitherError = { "application/json": { schema: { anyOf: [errorSchema, errorForm.body, googleForm.body] } } };

export function describeModelList(surface: SurfaceName): Record<string, unknown> {
  return describeOperation({
    tag: tags[surface],
    operationId: `${surface}ListModels`,
    summary: surface === "orchestrator" ? "The personas this key may use" : "The providers' models that are known here",
    description: otherForms,
    response: Type.Union([ModelList, ModelPage, ModelEntryPage]),
    headers: { ETag: "Of this list, for If-None-Match." },
    others: { 304: { description: "The list of If-None-Match is still what it is." } },
    parameters: [...clientHeaders, hasParameter, ...modelPaging],
    errors: [400, ...keyed],
    errorContent: eitherError,
  });
}

export function describeModel(surface: SurfaceName): Record<string, unknown> {
  return describeOperation({
    tag: tags[surface],
    operationId: `${surface}RetrieveModel`,
    summary: "One model by its id, whose slash may also be written as %2F",
    description: otherForms,
    response: Type.Union([Model, ModelInfo, ModelEntry]),
    errorContent: eitherError,
    parameters: [
      ...clientHeaders,
      { name: "id", in: "path", required: true, schema: { type: "string" }, example: exampleModel[surface] },
    ],
    errors: [...keyed, 404],
  });
}
