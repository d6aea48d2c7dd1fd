/**
 * Claude in Microsoft Foundry: Anthropic's format below a resource of one's own; the model is the name of a deployment, which is the
 * model's own unless another was chosen.
 * Source: https://platform.claude.com/docs/en/build-with-claude/claude-in-microsoft-foundry
 */
import { Type } from "@sinclair/typebox";
import { cloudOf } from "../../facts/clouds.ts";
import { entraOptions } from "../entra.ts";
import type { RemoteProvider } from "../provider.ts";
import { anthropic } from "./anthropic.ts";
import { native } from "./native.ts";
import { onCloud } from "./on-cloud.ts";

/** There is no list of models. */
const { modelList: _, ...messages } = anthropic;

const route = onCloud(native, cloudOf("foundry"));

export const foundry: RemoteProvider = {
  ...messages,
  native: (format) => (format === "messages" ? route : undefined),
  name: "foundry",
  // Every resource has its own: https://<resource>.services.ai.azure.com/anthropic
  baseUrl: "",
  models: [],
  rowsFor: () => [{ format: "messages", provider: "anthropic" }],
  // The variables of the official library: https://github.com/anthropics/anthropic-sdk-typescript/tree/main/packages/foundry-sdk
  environment: { keys: ["ANTHROPIC_FOUNDRY_API_KEY"], baseUrl: ["ANTHROPIC_FOUNDRY_BASE_URL"] },
  options: Type.Object(entraOptions),
  keyPlace: { header: "api-key" },
  // https://learn.microsoft.com/azure/foundry/foundry-models/how-to/use-foundry-models-claude
  auth: { kind: "entra", scope: "https://ai.azure.com/.default", isChosen: true },
};
