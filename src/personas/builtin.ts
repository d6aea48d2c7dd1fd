/** The example personas, compiled in: what serves when there is no folder. A test holds this list equal to `personas/`. */
import editor from "../../personas/studio/editor.yaml" with { type: "text" };
import producer from "../../personas/studio/producer.yaml" with { type: "text" };
import reviewer from "../../personas/studio/reviewer.yaml" with { type: "text" };
import strategist from "../../personas/studio/strategist.yaml" with { type: "text" };
import guide from "../../personas/troupe/guide.yaml" with { type: "text" };
import minutes from "../../personas/troupe/minutes.yaml" with { type: "text" };
import translator from "../../personas/troupe/translator.yaml" with { type: "text" };
import tutor from "../../personas/troupe/tutor.yaml" with { type: "text" };
import { formatFault } from "../lib/yaml.ts";
import { type Persona, parsePersona } from "./persona.ts";

/** The text of each file, by id. */
export const builtinFiles: Readonly<Record<string, string>> = {
  "studio/editor": editor,
  "studio/producer": producer,
  "studio/reviewer": reviewer,
  "studio/strategist": strategist,
  "troupe/guide": guide,
  "troupe/minutes": minutes,
  "troupe/translator": translator,
  "troupe/tutor": tutor,
};

/** @throws Error when one of them is at fault, which no release has */
export function builtinPersonas(): Persona[] {
  return Object.entries(builtinFiles).map(([id, text]) => {
    const parsed = parsePersona(text, `personas/${id}.yaml`, id);
    if ("faults" in parsed) throw new Error(parsed.faults.map(formatFault).join("\n"));
    return parsed.persona;
  });
}
