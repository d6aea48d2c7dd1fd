/** Previews of personas, as the API answers them. */
import { Type } from "@sinclair/typebox";
import { titled } from "../lib/json/schemas.ts";
import type { Answer } from "./shape.ts";

const pushed = {
  label: Type.String(),
  personas: Type.Array(Type.Object({ id: Type.String(), version: Type.String() })),
  key: Type.String({ description: "The id of the key that pushed it." }),
  key_name: Type.String(),
  pushed_at: Type.String(),
  ends_at: Type.String(),
  bytes: Type.Integer(),
};
export const PersonaPreview = Type.Object({ object: Type.Literal("persona.preview"), ...pushed });
export type PersonaPreview = Answer<typeof PersonaPreview>;

export const PersonaReport = Type.Object({ object: Type.Literal("persona.report"), ...pushed });

export const PersonaPreviewDropped = Type.Object({
  object: Type.Literal("persona.preview.dropped"),
  label: Type.String(),
  personas: Type.Integer(),
});
export type PersonaPreviewDropped = Answer<typeof PersonaPreviewDropped>;

export const PersonaPreviewList = Type.Object({ object: Type.Literal("list"), data: Type.Array(PersonaPreview) });
export type PersonaPreviewList = Answer<typeof PersonaPreviewList>;

titled({ PersonaPreview, PersonaReport, PersonaPreviewDropped, PersonaPreviewList });
