/**
 * Previews of personas: what a working tree was pushed as, called as `<persona>@<label>` until it ends. They are in the store alone, so that
 * all nodes agree and a start reads none; a call that names one asks for its latest push, and any other call does not come here.
 */
import type { Clock } from "../../lib/time/clock.ts";
import { keptPersona } from "../../personas/review/previews.ts";
import { isLabel } from "../../personas/versions/labels.ts";
import { splitReference } from "../../personas/versions/references.ts";
import type { Personas } from "../../personas/versions/registry.ts";
import type { PreviewRepository } from "../../store/contract/previews.ts";
import { needsStorage } from "../../store/require-storage.ts";

type Tools = { readonly previews: PreviewRepository; readonly personas: Personas; readonly clock: Clock };

/**
 * Makes the latest push of a preview ready to be found, or what has ended not to be.
 * @param name `<persona>@<label>` @throws ApiError storage_unavailable
 */
export async function preparePreview(tools: Tools, name: string): Promise<void> {
  const { id, reference: label = "" } = splitReference(name) ?? {};
  if (id === undefined || !isLabel(label) || tools.personas.labels?.has(name)) return;
  await needsStorage(() => load(tools, name, id, label));
}

async function load({ previews, personas, clock }: Tools, name: string, id: string, label: string): Promise<void> {
  const now = clock.now();
  const revision = await previews.revision(label, now);
  if (revision !== undefined && revision === personas.previewed(name)) return;
  const row = revision === undefined ? undefined : await previews.get(label, now);
  const persona = row && keptPersona(row.content, id, label);
  if (persona === undefined) personas.dropPreview(name);
  else personas.preview(persona, row!.revision);
}
