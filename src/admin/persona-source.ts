/** The admin API's routes of personas' files: read, checked, and saved where the configuration lets them be. */
import { Type } from "@sinclair/typebox";
import { PersonaChecked, PersonaSource } from "../api/persona-sources.ts";
import type { Services } from "../call/services.ts";
import { writing } from "../http/openapi/describe.ts";
import { Closed } from "../lib/json/schemas.ts";
import { checkSource } from "../operate/personas/check.ts";
import {
  compiledText,
  isFolderServed,
  NotSaved,
  noSuchPersona,
  ownFile,
  savePersona,
} from "../operate/personas/save.ts";
import { idProblem, sourcePathOf } from "../personas/file/source-file.ts";
import { sourceOf } from "../personas/persona.ts";
import { ApiError } from "../protocols/errors.ts";
import type { AdminPlugin } from "./act.ts";
import { adminOperation } from "./pages.ts";
import { idOf, Named, notSaved, readOnlyBecause, saving, Text } from "./persona-files.ts";

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
        const saved = await savePersona(operator, services, id, body);
        return saved instanceof NotSaved ? notSaved(saved, context) : sourceJson(services, id);
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
        const path = await sourcePathOf(services.live.config.personas.folder, id);
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
