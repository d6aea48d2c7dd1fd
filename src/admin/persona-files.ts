/** Files in the folder of personas as the admin API edits them: why one can't be saved, and saving one where the configuration lets it be. */
import { type Static, Type } from "@sinclair/typebox";
import { Finding } from "../api/findings.ts";
import type { ReadOnly } from "../api/persona-sources.ts";
import { OrNull } from "../api/shape.ts";
import type { RequestContext } from "../call/context.ts";
import { jsonAnswer } from "../call/relay/relay.ts";
import type { Services } from "../call/services.ts";
import { errorSchema, writing } from "../http/openapi/describe.ts";
import { Closed } from "../lib/json/schemas.ts";
import { wordsOf } from "../operate/personas/check.ts";
import type { NotSaved } from "../operate/personas/save.ts";
import { maxFileBytes } from "../personas/file/read-file.ts";
import { isUnused } from "../personas/file/source-file.ts";
import { chat } from "../protocols/chat/chat.ts";
import { ApiError } from "../protocols/errors.ts";

export const Named = Type.Object({ namespace: Type.String(), name: Type.String() });
export const idOf = ({ namespace, name }: Static<typeof Named>): string => `${namespace}/${name}`;

export const Text = Type.String({ maxLength: maxFileBytes, description: "Of the whole file." });
const Save = Closed({
  text: Text,
  if_hash: OrNull(Type.String(), {
    description: "The hash of the text that was edited; null: there was no such file.",
  }),
});
const errorWith = (description: string, schema: unknown) => ({
  description,
  content: { "application/json": { schema } },
});

/** What refuses to save, beside the usual errors. */
export const saveRefusals = {
  409: errorWith("The file is no longer the one that was edited.", errorSchema),
  422: errorWith("The text has errors.", {
    allOf: [errorSchema, Type.Object({ findings: Type.Array(Finding) })],
  }),
};

/** Describes a route that saves such a file. */
export const saving = {
  description:
    "Only where console.write is on. The file is replaced whole, where it is the one that was edited (else 409) and the text has no errors (else 422, with findings beside error).",
  params: Named,
  body: Save,
  errors: [404, ...writing],
  others: saveRefusals,
};

/** @param isThere whether the folder has the persona's own file */
export async function readOnlyBecause({ live }: Services, isThere: boolean): Promise<ReadOnly> {
  if (!live.config.console.write) return "write_off";
  return isThere || (await isUnused(live.config.personas.folder)) ? null : "in_executable";
}

/** Answers that a text has errors, with all of them. */
export function notSaved({ errors }: NotSaved, context: RequestContext) {
  const [first, ...more] = errors;
  const rest = more.length === 0 ? "" : ` (and ${more.length} more)`;
  const error = ApiError.personaInvalid(`${wordsOf(first!)}${rest}; nothing was saved.`);
  return jsonAnswer({ ...(chat.error(error, context.id) as object), findings: errors }, error.status);
}
