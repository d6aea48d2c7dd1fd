/** Files of personas and of their tests, as the API answers them. */
import { Type } from "@sinclair/typebox";
import { Words } from "../lib/json/schemas.ts";
import { Finding } from "./findings.ts";
import { type Answer, OrNull } from "./shape.ts";

const ReadOnly = OrNull(Words(["write_off", "in_executable"]), {
  description: "Why it can't be saved; null: it can, where the server may write.",
});
export type ReadOnly = Answer<typeof ReadOnly>;

export const PersonaSource = Type.Object({
  object: Type.Literal("persona.source"),
  id: Type.String(),
  file: Type.String({ description: "Its path on the server." }),
  text: Type.String(),
  hash: Type.String({ description: "Of the text: if_hash when it is saved." }),
  version: OrNull(Type.String(), { description: "That is served; null: none is." }),
  is_served: Type.Boolean({ description: "False where an older text is served, as this one has errors." }),
  read_only: ReadOnly,
  findings: Type.Array(Finding),
});
export type PersonaSource = Answer<typeof PersonaSource>;

export const PersonaChecked = Type.Object({
  object: Type.Literal("persona.check"),
  id: Type.String(),
  version: OrNull(Type.String(), { description: "That the text would be; null: it has errors." }),
  findings: Type.Array(Finding),
});

export const PersonaTestSource = Type.Object({
  object: Type.Literal("persona.test_source"),
  id: Type.String({ description: "Of the persona." }),
  file: Type.String({ description: "Its path on the server, or the one that it would have." }),
  text: Type.String({ description: "Empty where there is none yet." }),
  hash: OrNull(Type.String(), { description: "Of the text: if_hash when it is saved; null: there is none yet." }),
  read_only: ReadOnly,
  findings: Type.Array(Finding),
});
export type PersonaTestSource = Answer<typeof PersonaTestSource>;

export const PersonaTestsChecked = Type.Object({
  object: Type.Literal("persona.test_check"),
  id: Type.String(),
  tests: Type.Array(Type.Object({ name: Type.String(), line: Type.Integer() })),
  findings: Type.Array(Finding),
});

export const PersonaTestDraft = Type.Object({
  object: Type.Literal("persona.test_draft"),
  id: Type.String(),
  file: Type.String(),
  text: Type.String({ description: "Of the file with the test. What stood in it is as it was." }),
  hash: OrNull(Type.String(), { description: "Of the file as it is now: if_hash when this is saved." }),
  findings: Type.Array(Finding),
});
export type PersonaTestDraft = Answer<typeof PersonaTestDraft>;
