/** The admin API's routes of personas' files: read, checked, and saved where the configuration lets them be. */
import { type Static, Type } from "@sinclair/typebox";
import { errorSchema, writing } from "../http/openapi/describe.ts";
import { jsonAnswer } from "../http/respond.ts";
import type { Services } from "../http/services.ts";
import { Closed, Words } from "../lib/schemas.ts";
import { sourceOf } from "../personas/persona.ts";
import { maxFileBytes } from "../personas/read-file.ts";
import { textOf } from "../personas/source.ts";
import {
  hashOf,
  idProblem,
  isUnused,
  NotWritten,
  pathOf,
  placeBuiltins,
  readSource,
  replaceSource,
} from "../personas/source-file.ts";
import { chat } from "../protocols/chat/chat.ts";
import { ApiError } from "../protocols/errors.ts";
import type { AdminPlugin } from "./act.ts";
import { adminOperation, OrNull } from "./pages.ts";
import { checkSource, Finding, wordsOf } from "./persona-check.ts";

const Named = Type.Object({ namespace: Type.String(), name: Type.String() });
const blockers = ["write_off", "in_executable"] as const;
const SourceSchema = Type.Object({
  object: Type.Literal("persona.source"),
  id: Type.String(),
  file: Type.String({ description: "Its path on the server." }),
  text: Type.String(),
  hash: Type.String({ description: "Of the text: if_hash when it is saved." }),
  version: OrNull(Type.String(), { description: "That is served; null: none is." }),
  is_served: Type.Boolean({ description: "False where an older text is served, as this one has errors." }),
  read_only: OrNull(Words(blockers), {
    description: "Why it can't be saved; null: it can, where the server may write.",
  }),
  findings: Type.Array(Finding),
});
const Text = Type.String({ maxLength: maxFileBytes, description: "Of the whole file." });
const Save = Closed({
  text: Text,
  if_hash: OrNull(Type.String(), {
    description: "The hash of the text that was edited; null: there was no such file.",
  }),
});
const Check = Closed({ id: Type.String({ description: "The persona's <namespace>/<name>." }), text: Text });
const Checked = Type.Object({
  object: Type.Literal("persona.check"),
  id: Type.String(),
  version: OrNull(Type.String(), { description: "That the text would be; null: it has errors." }),
  findings: Type.Array(Finding),
});

const errorWith = (description: string, schema: unknown) => ({
  description,
  content: { "application/json": { schema } },
});

const idOf = ({ namespace, name }: Static<typeof Named>) => `${namespace}/${name}`;

/** Whether the personas in service are those of the folder. */
const isFolderServed = ({ personas }: Services) => personas.labels !== undefined;

async function sourceJson(services: Services, id: string) {
  const { live, personas } = services;
  const { folder } = live.config.personas;
  const served = personas.find(id);
  const missing = () => ApiError.notFound("There is no such persona.", "name");
  if (idProblem(id) !== undefined) throw missing();
  const file = isFolderServed(services) || served === undefined ? await readSource(folder, id) : undefined;
  const found = file ?? (served && (await compiledText(services, id)));
  if (found === undefined) throw missing();
  const { text, path, hash } = found;
  const { findings } = await checkSource(services, id, text, path);
  const isLocked = file === undefined && !(await isUnused(folder));
  const readOnly = !live.config.console.write ? "write_off" : isLocked ? "in_executable" : null;
  return {
    object: "persona.source" as const,
    id,
    file: path,
    text,
    hash,
    version: served?.version ?? null,
    is_served: served !== undefined && (file === undefined || sourceOf(served) === text),
    read_only: readOnly,
    findings,
  };
}

async function compiledText({ personas, live }: Services, id: string) {
  const found = await textOf(personas.find(id)!, live.config.personas.folder);
  return found && { path: found.file, text: found.text, hash: hashOf(found.text) };
}

const refusals: Readonly<Record<NotWritten["reason"], (path: string, error: NotWritten) => ApiError>> = {
  outside: (path) => ApiError.personaNotWritable(`${path} is a link that leads out of the folder of personas.`),
  changed: (path) => ApiError.personaChanged(`${path} has changed since it was read; nothing was saved.`),
  busy: (path) => ApiError.personaChanged(`${path} is being saved by somebody else; nothing was saved.`),
  failed: (path, { cause }) =>
    ApiError.personaNotWritable(`${path} can't be written: ${(cause as Error).message}.`, cause),
};

async function save(services: Services, id: string, { text, if_hash: ifHash }: Static<typeof Save>) {
  const { live, personas } = services;
  const { folder } = live.config.personas;
  if (!live.config.console.write)
    throw ApiError.personaNotWritable("Personas are read-only here: set console.write to true in the configuration.");
  const problem = idProblem(id);
  if (problem !== undefined) throw ApiError.invalidValue("name", `'${id}' can't name a persona: each part ${problem}.`);
  const isFirst = !isFolderServed(services) && (await isUnused(folder));
  // Others may have filled it a moment ago.
  if (!isFirst && !isFolderServed(services)) await services.rereadPersonas();
  if (!isFirst && !isFolderServed(services) && personas.find(id) !== undefined)
    throw ApiError.personaNotWritable(
      `${id} is in the executable, and ${folder} has files with errors: mend those, which then take the place of the personas inside.`,
    );
  const path = await pathOf(folder, id);
  const { findings } = await checkSource(services, id, text, path);
  const errors = findings.filter(({ severity }) => severity === "error");
  if (errors.length > 0) return { findings, error: invalid(errors) };
  const before = { version: personas.find(id)?.version ?? null, hash: ifHash };
  try {
    if (isFirst) {
      const compiled = personas.find(id) && (await compiledText(services, id));
      if ((compiled?.hash ?? null) !== ifHash) throw new NotWritten("changed");
      await placeBuiltins(folder);
    }
    await replaceSource(folder, id, text, ifHash);
  } catch (error) {
    if (!(error instanceof NotWritten)) throw error;
    throw refusals[error.reason](path, error);
  }
  await services.rereadPersonas();
  return { before, after: { version: personas.find(id)?.version ?? null, hash: hashOf(text) } };
}

function invalid(errors: readonly Finding[]): ApiError {
  const more = errors.length === 1 ? "" : ` (and ${errors.length - 1} more)`;
  return ApiError.personaInvalid(`${wordsOf(errors[0]!)}${more}; nothing was saved.`);
}

export const personaSourceRoutes = (plugin: AdminPlugin) =>
  plugin
    .get(
      "/v1/personas/:namespace/:name/source",
      ({ services, params }) => sourceJson(services, idOf(params)),
      adminOperation({
        operationId: "adminGetPersonaSource",
        summary: "The file of a persona as it is now, with what the checker finds in it",
        params: Named,
        response: SourceSchema,
        errors: [404],
      }),
    )
    .put(
      "/v1/personas/:namespace/:name/source",
      async ({ services, context, params, body, record }) => {
        const id = idOf(params);
        const saved = await save(services, id, body);
        if ("error" in saved) {
          const { error, findings } = saved;
          return jsonAnswer({ ...(chat.error(error, context.id) as object), findings }, error.status);
        }
        await record({ act: "persona.save", subject: id, before: saved.before, after: saved.after });
        return sourceJson(services, id);
      },
      adminOperation({
        operationId: "adminSavePersonaSource",
        summary: "Saves a persona's file, and serves it",
        description:
          "Only where console.write is on. The file is replaced whole, where it is the one that was edited (else 409) and the text has no errors (else 422, with findings beside error).",
        params: Named,
        body: Save,
        response: SourceSchema,
        errors: [404, ...writing],
        others: {
          409: errorWith("The file is no longer the one that was edited.", errorSchema),
          422: errorWith("The text has errors.", {
            allOf: [errorSchema, Type.Object({ findings: Type.Array(Finding) })],
          }),
        },
      }),
    )
    .post(
      "/v1/personas/check",
      async ({ services, body: { id, text } }) => {
        const problem = idProblem(id);
        if (problem !== undefined) throw ApiError.invalidValue("id", `id can't name a persona: each part ${problem}.`);
        const path = await pathOf(services.live.config.personas.folder, id);
        const { persona, findings } = await checkSource(services, id, text, path);
        return { object: "persona.check" as const, id, version: persona?.version ?? null, findings };
      },
      adminOperation({
        operationId: "adminCheckPersona",
        summary: "What the checker finds in the text of a persona's file",
        body: Check,
        examples: {
          text: { summary: "A text", value: { id: "acme/helper", text: "description: Helps.\nsystem: You help.\n" } },
        },
        response: Checked,
        errors: writing,
      }),
    );
