/** The admin API's routes of personas' files: read, checked, and saved where the configuration lets them be. */
import { Type } from "@sinclair/typebox";
import { PersonaChecked, PersonaSource } from "../api/persona-sources.ts";
import type { Services } from "../call/services.ts";
import { writing } from "../http/openapi/describe.ts";
import { Closed } from "../lib/json/schemas.ts";
import { textOf } from "../personas/file/source.ts";
import { hashOf, idProblem, pathOf } from "../personas/file/source-file.ts";
import { sourceOf } from "../personas/persona.ts";
import { ApiError } from "../protocols/errors.ts";
import type { AdminPlugin } from "./act.ts";
import { adminOperation } from "./pages.ts";
import { checkSource } from "./persona-check.ts";
import {
  idOf,
  isFolderServed,
  Named,
  NotSaved,
  noSuchPersona,
  ownFile,
  readOnlyBecause,
  saveFile,
  saving,
  Text,
} from "./persona-files.ts";

const Check = Closed({ id: Type.String({ description: "The persona's <namespace>/<name>." }), text: Text });
async function sourceJson(services: Services, id: string) {
  const served = services.personas.find(id);
  const own = await ownFile(services, id);
  const file = isFolderServed(services) || served === undefined ? own : undefined;
  const found = file ?? (served && (await compiledText(services, id)));
  if (found === undefined) throw noSuchPersona();
  const { text, path, hash } = found;
  const { findings } = await checkSource(services, id, text, path);
  return {
    object: "persona.source" as const,
    id,
    file: path,
    text,
    hash,
    version: served?.version ?? null,
    is_served: served !== undefined && (file === undefined || sourceOf(served) === text),
    read_only: await readOnlyBecause(services, file !== undefined),
    findings,
  };
}

async function compiledText({ personas, live }: Services, id: string) {
  const found = await textOf(personas.find(id)!, live.config.personas.folder);
  return found && { path: found.file, text: found.text, hash: hashOf(found.text) };
}

const edited = (services: Services, id: string) => ({
  ...{ id, name: id },
  check: async (text: string, path: string) => (await checkSource(services, id, text, path)).findings,
  compiledHash: async () => (services.personas.find(id) && (await compiledText(services, id)))?.hash ?? null,
});

export const personaSourceRoutes = (plugin: AdminPlugin) =>
  plugin
    .get(
      "/v1/personas/:namespace/:name/source",
      ({ services, params }) => sourceJson(services, idOf(params)),
      adminOperation({
        operationId: "adminGetPersonaSource",
        summary: "The file of a persona as it is now, with what the checker finds in it",
        params: Named,
        response: PersonaSource,
        errors: [404],
      }),
    )
    .put(
      "/v1/personas/:namespace/:name/source",
      async ({ services, context, params, body, operator }) => {
        const id = idOf(params);
        const versionOf = () => services.personas.find(id)?.version ?? null;
        const version = versionOf();
        const saved = await saveFile(services, edited(services, id), body);
        if (saved instanceof NotSaved) return saved.answer(context);
        const before = { version, hash: saved.before };
        await operator.record({
          act: "persona.save",
          subject: id,
          before,
          after: { version: versionOf(), hash: saved.after },
        });
        return sourceJson(services, id);
      },
      adminOperation({
        operationId: "adminSavePersonaSource",
        summary: "Saves a persona's file, and serves it",
        response: PersonaSource,
        ...saving,
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
        response: PersonaChecked,
        errors: writing,
      }),
    );
