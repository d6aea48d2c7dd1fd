/** Takes versions of personas along into a server of this process, from where the configuration's server keeps them. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Config } from "../../config/config.ts";
import { labelsFile, parseLabels } from "../../personas/versions/labels.ts";
import type { PersonaVersionRow } from "../../store/contract/persona-versions.ts";
import type { Store } from "../../store/contract/store.ts";
import { openStoreFor } from "../../store/open.ts";
import { databaseName, openStore } from "../../store/sqlite/store.ts";

/**
 * Copies those versions that labels of the folder name, and those that are asked for. Nothing is written where they come from.
 * @param to the other server's configuration, which does not run yet @param names `<id>@<version>`
 * @throws StorageError where a store can't be used
 */
export async function copyKeptVersions(from: Config, to: Config, names: readonly string[]): Promise<void> {
  const wanted = [...new Set([...names, ...labelled(from.personas.folder)])];
  if (wanted.length === 0 || (from.store === undefined && !existsSync(join(from.data, databaseName)))) return;
  const opened = from.store === undefined ? openStore(from.data, { isTrial: true }) : await openStoreFor(from);
  const rows = await usingStore(opened, ({ personaVersions }) =>
    Promise.all(wanted.map((name) => personaVersions.get(name))),
  );
  const found = rows.filter((row): row is PersonaVersionRow => row !== undefined);
  if (found.length === 0) return;
  await usingStore(await openStoreFor(to), async ({ personaVersions }) => {
    for (const row of found) await personaVersions.keep(row);
  });
}

async function usingStore<T>(
  store: Store & { close(): Promise<void> | void },
  use: (store: Store) => Promise<T>,
): Promise<T> {
  try {
    return await use(store);
  } finally {
    await store.close();
  }
}

/** The versions that labels name; a file with a fault is reported where it is read. */
function labelled(folder: string): string[] {
  const path = join(folder, labelsFile);
  if (!existsSync(path)) return [];
  const parsed = parseLabels(readFileSync(path, "utf8"), path);
  return "labels" in parsed ? parsed.labels.map(({ persona, version }) => `${persona}@${version}`) : [];
}
