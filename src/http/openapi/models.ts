/** What the API's description says of the lists of models. */
import { Type } from "@sinclair/typebox";
import type { SurfaceName } from "../../config/config.ts";
import { ModelEntry, ModelEntryPage } from "../../protocols/generate-content/models.ts";
import { ModelInfo, ModelPage } from "../../protocols/messages/models.ts";
import { Model, ModelList } from "../../protocols/models.ts";
import { describeOperation, errorSchema } from "./describe.ts";
import { exampleModel, keyed, tags } from "./descriptions.ts";
import { ErrorBody as GoogleErrorBody } from "./generate-content.ts";
import { ErrorBody } from "./messages.ts";

const otherForms =
  "With an anthropic-version header, answers and errors are in Anthropic's form; with x-goog-api-client in Google's, as below /v1beta.";
const googleClient = { name: "x-goog-api-client", in: "header", schema: { type: "string" } };
const anthropicVersion = { name: "anthropic-version", in: "header", schema: { type: "string" } };
const modelPaging = [
  { name: "limit", in: "query", schema: { type: "integer", minimum: 1, maximum: 1000, default: 20 } },
  ...["after_id", "before_id"].map((name) => ({ name, in: "query", schema: { type: "string" } })),
].map((one) => ({ ...one, description: "In Anthropic's form alone: the other one has all models on one page." }));
const eitherError = { "application/json": { schema: { anyOf: [errorSchema, ErrorBody, GoogleErrorBody] } } };

export function describeModelList(surface: SurfaceName): Record<string, unknown> {
  return describeOperation({
    tag: tags[surface],
    operationId: `${surface}ListModels`,
    summary: surface === "orchestrator" ? "The personas this key may use" : "The providers' models that are known here",
    description: otherForms,
    response: { schema: Type.Union([ModelList, ModelPage, ModelEntryPage]) },
    parameters: [anthropicVersion, googleClient, ...modelPaging],
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
    response: { schema: Type.Union([Model, ModelInfo, ModelEntry]) },
    errorContent: eitherError,
    parameters: [
      anthropicVersion,
      googleClient,
      { name: "id", in: "path", required: true, schema: { type: "string" }, example: exampleModel[surface] },
    ],
    errors: [...keyed, 404],
  });
}
