/** The room of personas: those in service, what they know, their versions, previews and reports, and the folder that is watched. */
import { PersonaKnowledge } from "../../call/plan/knowledge.ts";
import { PersonaVersions } from "../../call/plan/persona-versions.ts";
import type { Config } from "../../config/config.ts";
import { formatDiagnostic } from "../../lib/yaml/yaml.ts";
import { builtinFiles, builtinPersonas } from "../../personas/builtin.ts";
import { PersonaFolder } from "../../personas/file/folder.ts";
import { personaFileWith } from "../../personas/file/schema.ts";
import { Personas } from "../../personas/versions/registry.ts";
import { optionSchemas } from "../../providers/options.ts";
import { providers } from "../../providers/registry.ts";
import { openKnowledgeIndex } from "../../store/sqlite/knowledge/thread.ts";
import type { Opening, ServiceOptions } from "./opening.ts";
import type { Stored } from "./stored.ts";

export function openPersonas({ config, options, metrics, own, opened, clock, log }: Opening, { store }: Stored) {
  const personas = new Personas([], options.changePersona);
  const index = own(openKnowledgeIndex());
  const knowledge = new PersonaKnowledge({ index, folder: config.personas.folder, clock, log, metrics });
  const versions = store.personaVersions;
  const personaVersions = own(new PersonaVersions({ versions, personas, previews: store.previews, clock, log }));
  const folder = openFolder(config.personas, personas, { knowledge, versions: personaVersions }, options);
  opened.defer(() => folder.close());
  return { personas, knowledge, personaVersions, folder };
}

export type PersonaParts = ReturnType<typeof openPersonas>;

function openFolder(
  { folder, isNamed }: Config["personas"],
  personas: Personas,
  { knowledge, versions }: { readonly knowledge: PersonaKnowledge; readonly versions: PersonaVersions },
  { clock, log }: ServiceOptions,
): PersonaFolder {
  let saysHidden = true;
  return new PersonaFolder({
    schema: personaFileWith(optionSchemas(providers)),
    path: folder,
    personas,
    clock,
    load: (names) => versions.load(names),
    ...(!isNamed && { otherwise: builtinPersonas() }),
    onRead: (all) => void knowledge.update(all),
    onReload: ({ added, changed, removed, errors, areOwn }) => {
      for (const diagnostic of errors)
        log.error("a persona is invalid; its last good version stays", { at: formatDiagnostic(diagnostic) });
      const from = areOwn ? folder : "the executable";
      log.info("personas", {
        from,
        in_service: personas.list().length,
        added,
        changed,
        removed,
        errors: errors.length,
      });
      const hidden =
        areOwn && saysHidden ? Object.keys(builtinFiles).filter((id) => personas.find(id) === undefined) : [];
      if (hidden.length > 0) log.info("own personas take the place of those in the executable", { not_served: hidden });
      saysHidden = !areOwn;
      void versions.record();
    },
  });
}
