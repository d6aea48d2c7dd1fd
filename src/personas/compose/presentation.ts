/** How a persona is presented to people: fields that no model is sent by themselves. */
import { type Static, Type } from "@sinclair/typebox";
import { Open } from "../../lib/json/schemas.ts";

const Avatar = Type.String({
  pattern: "^(?:https://\\S+|[A-Za-z0-9][A-Za-z0-9._-]{0,127}\\.(?:png|jpe?g|webp|gif|avif))$",
  patternErrorMessage: "must be an image beside this file, e.g. guide.png, or an https address",
  description: "Its picture: a file beside this one, or an https address.",
});

const CardFile = Type.String({
  pattern: "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}\\.card\\.json$",
  patternErrorMessage: "must be a card, or a file beside this one that holds it, e.g. guide.card.json",
});

export const presentationFields = {
  greeting: Type.Optional(
    Type.String({ minLength: 1, description: "How it opens a conversation, for clients to show; not sent by itself." }),
  ),
  avatar: Type.Optional(Avatar),
  tags: Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 128 }), { maxItems: 64, description: "Words to find it by." }),
  ),
  card: Type.Optional(
    Type.Union([Open({}), CardFile], {
      description:
        "The character card it was imported from, for the way back, or the file beside this one that holds it; never sent to a model.",
    }),
  ),
};

export type Presentation = {
  /** How it opens a conversation; for clients to show. */
  readonly greeting?: string;
  /** A file beside the persona's, or an https address. */
  readonly avatar?: string;
  readonly tags?: readonly string[];
  /** The character card it was imported from, or the file beside the persona's that holds it. */
  readonly card?: Readonly<Record<string, unknown>> | string;
};

type Fields = { [field in keyof typeof presentationFields]: Static<(typeof presentationFields)[field]> };

/** @param file a persona file's content @returns the fields that it has */
export const toPresentation = ({ greeting, avatar, tags, card }: Partial<Fields>): Presentation => ({
  ...(greeting !== undefined && { greeting }),
  ...(avatar !== undefined && { avatar }),
  ...(tags !== undefined && { tags }),
  ...(card !== undefined && { card }),
});
