/** Sessions of the console, as the API answers them. */
import { Type } from "@sinclair/typebox";
import { titled, Words } from "../lib/json/schemas.ts";
import { type Answer, type Listed, OrNull } from "./shape.ts";

const KeyName = Type.Object({ id: Type.String(), name: Type.String() });

const times = {
  created_at: Type.String(),
  last_used_at: Type.String({ description: "To the minute." }),
  expires_at: Type.String({ description: "When it ends if it is not used any more." }),
  ends_at: Type.String({ description: "When it ends however much it is used." }),
};

export const SignedIn = Type.Object({
  object: Type.Literal("session"),
  signed_in_by: Words(["session", "key", "proxy"], {
    description: "A session's cookie, a key in a header, or a trusted proxy that names the user.",
  }),
  actor: Type.String({ description: "As lines of the audit name who acts." }),
  key: OrNull(KeyName),
  user: OrNull(Type.String()),
  id: OrNull(Type.String()),
  created_at: OrNull(Type.String()),
  expires_at: OrNull(times.expires_at),
  ends_at: OrNull(times.ends_at),
  version: Type.String({ description: "Of the server." }),
  write: Type.Boolean({ description: "Whether personas' files can be saved, by console.write." }),
});
export type SignedIn = Answer<typeof SignedIn>;

export const Session = Type.Object({
  object: Type.Literal("session"),
  id: Type.String(),
  key: KeyName,
  client: Type.String({ description: "Firefox on Linux and its like, by the user agent." }),
  ...times,
  is_current: Type.Boolean({ description: "True for the one that asks." }),
});
export type Session = Answer<typeof Session>;
export type SessionPage = Listed<Session>;

titled({ Session, SignedIn });
