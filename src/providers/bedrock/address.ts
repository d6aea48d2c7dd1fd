/** The addresses of a region's models. */
import { truncate } from "../../lib/text/truncate.ts";
import { ApiError } from "../../protocols/errors.ts";
import { leadsElsewhere } from "../../protocols/model-id.ts";
import type { Account, Call } from "../provider.ts";

/** https://docs.aws.amazon.com/general/latest/gr/bedrock.html */
export const usualBase = "https://bedrock-runtime.us-east-1.amazonaws.com";

/** The account's own address where it was moved (a VPC endpoint), else that of its region. */
export function baseOf({ baseUrl, options }: Account): string {
  const { region } = options;
  if (baseUrl !== usualBase || typeof region !== "string") return baseUrl;
  // https://docs.aws.amazon.com/general/latest/gr/rande.html: China has a domain of its own.
  return `https://bedrock-runtime.${region}.amazonaws.com${region.startsWith("cn-") ? ".cn" : ""}`;
}

/** The other endpoint, which knows neither Converse nor inference profiles: https://docs.aws.amazon.com/bedrock/latest/userguide/bedrock-mantle.html */
export const isMantle = ({ baseUrl }: Pick<Account, "baseUrl">): boolean => /^https:\/\/bedrock-mantle\./.test(baseUrl);

/**
 * The base URL of OpenAI's formats. On `bedrock-mantle` most models stand below `/v1`, OpenAI's own below `/openai/v1`:
 * https://docs.aws.amazon.com/bedrock/latest/userguide/inference-responses-api.html,
 * https://github.com/openai/openai-node/blob/HEAD/bedrock.md
 */
export function openAiBase(account: Account, model: string): string {
  const isBelow = !isMantle(account) || /^openai\.gpt-\d/.test(model);
  return `${baseOf(account)}${isBelow ? "/openai" : ""}/v1`;
}

/** https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html#API_runtime_Converse_RequestParameters */
const modelForm = /^[a-zA-Z0-9_.:/-]{1,2048}$/;

/** @throws ApiError invalid_value for a name that is none of a model, a profile or an ARN */
export function converseUrl({ model, account, request }: Call): string {
  if (!modelForm.test(model) || leadsElsewhere(model)) {
    throw ApiError.invalidValue("model", `'${truncate(model)}' is no name of a model there.`);
  }
  const method = request.stream === true ? "converse-stream" : "converse";
  return `${baseOf(account)}/model/${encodeURIComponent(model)}/${method}`;
}
