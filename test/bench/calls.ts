/** The calls that scenarios make, told apart from who answers them. */

import type { FormatName } from "../helpers/client-formats.ts";
import type { PromptKind } from "./answer-shape.ts";
import type { FamilyName } from "./mock-families.ts";

export type CallSpec = {
  /** Who is asked: the gateway surface by `<provider>/<model>`, a provider's own API below it, a persona, or one that knows 300 sections. */
  readonly surface: "gateway" | "raw" | "persona" | "knowledge";
  /** The format of the client. */
  readonly format: FormatName;
  readonly family: FamilyName;
  /** Goes into the model's name; see answer-shape.ts. */
  readonly shape: string;
  readonly streamed: boolean;
  readonly includeUsage: boolean;
  readonly promptChars: number;
  readonly promptKind: PromptKind;
  readonly identified: boolean;
};

const models: Record<FamilyName, string> = {
  openai: "gpt-4o",
  anthropic: "claude-sonnet-4-5",
  google: "gemini-2.5-flash",
  xai: "grok-4",
};

/** The model's name as the mock knows it. */
export const mockModel = ({ family, shape }: CallSpec) => models[family] + shape;

export const isPersona = ({ surface }: CallSpec) => surface === "persona" || surface === "knowledge";

export const personaId = (call: CallSpec) => `bench/${mockModel(call).replaceAll(".", "-")}`;

/** What makes a family's model speak the dialect that the mock stands for. */
export const fieldsOf = ({ family, format }: CallSpec): Record<string, unknown> =>
  format === "chat" ? (fields[family] ?? {}) : {};
const fields: Partial<Record<FamilyName, Record<string, unknown>>> = { xai: { use_responses_api: true } };

export function call(changes: Partial<CallSpec>): CallSpec {
  return {
    surface: "gateway",
    format: "chat",
    family: "openai",
    shape: "",
    streamed: false,
    includeUsage: false,
    promptChars: 200,
    promptKind: "ascii",
    identified: false,
    ...changes,
  };
}
