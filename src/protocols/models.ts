import { type Static, Type } from "@sinclair/typebox";
import { Open, titled } from "../lib/json/schemas.ts";

/** Words by which models are looked for: what they read and answer with beside text, and what they can do. */
export const capabilityNames = [
  ...["vision", "audio_input", "video", "files", "image_output", "audio_output"],
  ...["tools", "structured_output", "reasoning"],
] as const;

export const Model = Open({
  id: Type.String({ description: "<namespace>/<name>" }),
  object: Type.Literal("model"),
  created: Type.Integer({ description: "Unix time in seconds." }),
  owned_by: Type.String(),
  name: Type.String({ description: "For people; clients that list models show it." }),
  description: Type.Optional(Type.String()),
  tier: Type.Optional(Type.String({ description: "The lowest plan that may use it (orchestrator)." })),
  greeting: Type.Optional(Type.String({ description: "How a persona opens a conversation, for clients to show." })),
  tags: Type.Optional(Type.Array(Type.String(), { description: "Words to find a persona by." })),
  context_length: Type.Optional(Type.Integer({ description: "Tokens that it reads at most." })),
  max_output_tokens: Type.Optional(Type.Integer({ description: "Tokens that it answers with at most." })),
  input_modalities: Type.Optional(
    Type.Array(Type.String(), { description: "text, image, audio, video, file, as its provider names them." }),
  ),
  output_modalities: Type.Optional(Type.Array(Type.String())),
  capabilities: Type.Optional(
    Type.Array(Type.String(), {
      description: `Of ${capabilityNames.join(", ")}: what it is known to be able to.`,
    }),
  ),
  assumed: Type.Optional(
    Type.String({
      description: "The known model of its line whose limits and capabilities these are, as nobody knows its own.",
    }),
  ),
  pricing: Type.Optional(
    Type.Object(
      { input: Type.Number(), output: Type.Number() },
      {
        description:
          "Dollars per million tokens: as configured, else as its provider lists it, else as the list of prices has it.",
      },
    ),
  ),
  formats: Type.Optional(
    Type.Array(Type.String(), {
      description: "Formats that its upstream speaks itself, so that calls in them pass untranslated: chat, responses…",
    }),
  ),
  shutdown_date: Type.Optional(
    Type.String({
      format: "date",
      description: "The first day on which it no longer answers, where that is announced.",
    }),
  ),
  deprecated: Type.Optional(Type.Literal(true, { description: "Its provider says so." })),
});
export const ModelList = Type.Object({ object: Type.Literal("list"), data: Type.Array(Model) });

titled({ Model, ModelList });

export type Model = Static<typeof Model>;
export type ModelList = Static<typeof ModelList>;

/** @param has words with commas between: `vision,tools` @returns undefined where one of them names no capability */
export function capabilitiesIn(has: string): readonly string[] | undefined {
  const names = has.split(",").map((name) => name.trim());
  return names.every((name) => (capabilityNames as readonly string[]).includes(name)) ? names : undefined;
}
