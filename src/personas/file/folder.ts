/** The folder of personas, `<namespace>/<name>.yaml`: read whole, and taken over again while running when it changes. */
import type { Dirent } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { type Watch, watchFolder } from "../../lib/files/file-watch.ts";
import { isSameList } from "../../lib/json/same-list.ts";
import { few } from "../../lib/text/few.ts";
import type { Clock } from "../../lib/time/clock.ts";
import { systemClock } from "../../lib/time/clock.ts";
import { nextSlice } from "../../lib/time/cooperative-scheduling.ts";
import { type Diagnostic, YamlSource } from "../../lib/yaml/yaml.ts";
import { draftPersona, nameProblem, type ParsedPersona, type Persona, sourceOf } from "../persona.ts";
import { isTestName } from "../suites/find.ts";
import { type Label, labelsFile, parseLabels } from "../versions/labels.ts";
import { type LoadVersions, noReferences, type References, resolveReferences } from "../versions/references.ts";
import type { Personas } from "../versions/registry.ts";
import { PartialReader, resolveDraft } from "./partial-reader.ts";
import { maxFileBytes, readStart, reasonOf, utf8 } from "./read-file.ts";
import { PersonaFile } from "./schema.ts";

const maxFiles = 2000;
/** Files read at once. */
const batchSize = 16;
/** Bytes of files and their partials that are parsed without a pause: some milliseconds, as what the process answers meanwhile waits. */
const sliceBytes = 16 * 1024;

/** One file as it was last read. A file is not parsed again while its bytes and those of its partials are the same. */
type Read = {
  readonly hash: string;
  readonly parsed: ParsedPersona;
  /** The paths of its partials, and the hash of each. */
  readonly uses: readonly string[];
  readonly hashes: readonly string[];
};

type LoadedFolder = {
  readonly personas: readonly Persona[];
  readonly errors: readonly Diagnostic[];
  /** The path of each persona's file, by its id. */
  readonly paths: ReadonlyMap<string, string>;
  /** The partials that each includes, within the folder, by its id. */
  readonly uses: ReadonlyMap<string, readonly string[]>;
};

/** Reads a folder once. Invalid files are left out and reported; a folder that can't be read is an error too. */
export async function loadFolder(path: string, schema = PersonaFile): Promise<LoadedFolder> {
  const read = await readFolder(path, new Map(), schema);
  const own = new Map(
    [...read.files].flatMap(([id, { parsed }]) => ("persona" in parsed ? [[id, parsed.persona] as const] : [])),
  );
  const resolved = await resolveReferences(own, read.labels ?? [], noReferences, undefined, placedIn(read.paths));
  const uses = new Map([...read.files].map(([id, file]) => [id, file.uses]));
  return { personas: [...own.values()], errors: [...read.errors, ...resolved.errors], paths: read.paths, uses };
}

/** Places errors in the files of personas. */
const placedIn =
  (paths: ReadonlyMap<string, string>) =>
  (persona: Persona, path: readonly string[], message: string): Diagnostic => {
    const file = paths.get(persona.id) ?? persona.id;
    return new YamlSource(sourceOf(persona) ?? "", file).diagnosticAt(path, message);
  };

async function readFolder(path: string, known: ReadonlyMap<string, Read>, schema = PersonaFile): Promise<Reader> {
  const reader = new Reader(path, known, schema);
  await reader.readFolder();
  return reader;
}

export type ReloadResult = {
  /** All that are in service now. */
  readonly personas: readonly Persona[];
  /** Ids, sorted. */
  readonly added: readonly string[];
  readonly changed: readonly string[];
  readonly removed: readonly string[];
  readonly errors: readonly Diagnostic[];
  /** True where they are the folder's. */
  readonly areOwn: boolean;
  /** Versions by label, `<id>@<label>`. */
  readonly labels: ReadonlyMap<string, string>;
};

type FolderOptions = {
  readonly path: string;
  /** The registry in which each reading is put in service. */
  readonly personas: Personas;
  /** The personas in service while the folder holds none, and may be missing. Absent: the folder has to be there. */
  readonly otherwise?: readonly Persona[];
  /** The schema of the files; absent: providers' options are not checked. */
  readonly schema?: typeof PersonaFile;
  readonly clock?: Clock;
  /** Loads versions that labels and prompts name and that are no longer in service; absent: there are none. */
  readonly load?: LoadVersions;
  /** Called when something changed, errors included; for the log. */
  readonly onReload?: (result: ReloadResult) => void;
  /** Called after every reading, also where no persona changed: files beside them may have. */
  readonly onRead?: (personas: readonly Persona[]) => void;
};

/**
 * Keeps a registry equal to a folder. Everything is read and checked first, then put in service at once. A persona whose file
 * is invalid stays as it last was; one whose file is gone goes, unless the whole folder is.
 */
export class PersonaFolder {
  readonly #options: FolderOptions;
  #files: ReadonlyMap<string, Read> = new Map();
  /** The folder's, with the last good ones of invalid files. */
  #own: ReadonlyMap<string, Persona> = new Map();
  #inService: ReadonlyMap<string, Persona> = new Map();
  #errors: readonly Diagnostic[] = [];
  #labels: readonly Label[] = [];
  #references: References = noReferences;
  #watch: Watch | undefined;
  #running: Promise<unknown> = Promise.resolve();
  #queued: Promise<ReloadResult> | undefined;
  #closed = false;

  constructor(options: FolderOptions) {
    this.#options = options;
    const { otherwise, personas } = options;
    if (otherwise === undefined) return;
    this.#inService = new Map(otherwise.map((one) => [one.id, one]));
    personas.replace(otherwise);
  }

  /** The errors of the latest reading. */
  get lastErrors(): readonly Diagnostic[] {
    return this.#errors;
  }

  /** Loads the folder and watches it from then on. */
  start(): Promise<ReloadResult> {
    this.#watch = watchFolder(this.#options.path, () => void this.rescan(), this.#options.clock ?? systemClock);
    return this.rescan();
  }

  /** One reading runs at a time; calls during it share the next one. */
  rescan(): Promise<ReloadResult> {
    this.#queued ??= this.#running.then(() => {
      this.#queued = undefined;
      const reload = this.#reload();
      this.#running = reload;
      return reload;
    });
    return this.#queued;
  }

  /** Stops watching. After it no callback comes. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#watch?.close();
    await this.#running;
  }

  async #reload(): Promise<ReloadResult> {
    const { path, schema, otherwise } = this.#options;
    const mayBeMissing = otherwise !== undefined && this.#files.size === 0;
    const isMissing = mayBeMissing && (await stat(path).catch(() => undefined)) === undefined;
    const read = isMissing ? new Reader(path, this.#files) : await readFolder(path, this.#files, schema);
    const { files } = read;
    const labels = read.labels ?? this.#labels;
    const before = this.#inService;
    const own = new Map<string, Persona>();
    for (const [id, { parsed }] of files) {
      const persona = "persona" in parsed ? parsed.persona : this.#own.get(id);
      if (persona !== undefined) own.set(id, persona);
    }
    const { references, errors: unresolved } = await resolveReferences(
      own,
      labels,
      this.#references,
      this.#options.load ?? (async () => new Map()),
      placedIn(read.paths),
    );
    const errors = [...read.errors, ...unresolved];
    const after = own.size > 0 || otherwise === undefined ? own : new Map(otherwise.map((one) => [one.id, one]));
    const result: ReloadResult = {
      personas: [...after.values()],
      added: [...after.keys()].filter((id) => !before.has(id)).sort(),
      changed: [...after.keys()].filter((id) => before.has(id) && before.get(id) !== after.get(id)).sort(),
      removed: [...before.keys()].filter((id) => !after.has(id)).sort(),
      errors,
      areOwn: after === own,
      labels: references.labels,
    };
    const moved =
      result.added.length + result.changed.length + result.removed.length > 0 ||
      !isSameNaming(references, this.#references);
    const news = moved || !Bun.deepEquals(errors, this.#errors);
    if (this.#closed) return result;
    this.#files = files;
    this.#own = own;
    this.#inService = after;
    this.#errors = errors;
    this.#labels = labels;
    this.#references = references;
    if (moved) this.#options.personas.replace(result.personas, result.areOwn ? references : undefined);
    if (news) this.#options.onReload?.(result);
    this.#options.onRead?.(result.personas);
    return result;
  }
}

/** True where labels and prompts name the same. */
const isSameNaming = (one: References, other: References): boolean =>
  Bun.deepEquals(
    [one.labels, one.prompts, [...one.personas.keys()]],
    [other.labels, other.prompts, [...other.personas.keys()]],
  );

/** Dot files (a config map's `..data` among them), editors' backups and lock files. */
const ignored = /^[.~#]|[~#]$/;
const extension = /\.ya?ml$/i;

/** Gathers one reading; what was read before is taken again where its bytes are the same, or can't be looked at. */
class Reader {
  readonly files = new Map<string, Read>();
  readonly paths = new Map<string, string>();
  readonly errors: Diagnostic[] = [];
  /** Of the folder's file; undefined where that could not be read, or is invalid. */
  labels: readonly Label[] | undefined;
  readonly #known: ReadonlyMap<string, Read>;
  readonly #schema: typeof PersonaFile;
  readonly #root: string;
  readonly #partials: PartialReader;
  /** Parsed since the last pause. */
  #parsedBytes = 0;

  constructor(root: string, known: ReadonlyMap<string, Read>, schema = PersonaFile) {
    this.#root = root;
    this.#known = known;
    this.#schema = schema;
    this.#partials = new PartialReader(root);
  }

  async readFolder(): Promise<void> {
    const root = this.#root;
    const paths = new Map<string, string[]>();
    const entries = await this.#list(root, "");
    if (entries.length > 0) await this.#readLabels(entries);
    for (const { name, path, kind } of entries) {
      if (kind === "file" && name !== labelsFile && extension.test(name))
        this.#report(path, "A persona stands in a folder named for its namespace");
      if (kind === "missing") this.#report(path, "This is a link to nothing", `${name}/`);
      if (kind === "folder" && !name.startsWith("_")) await this.#listNamespace(name, path, paths);
    }
    const files = this.#taken(paths);
    for (let from = 0; from < files.length; from += batchSize) {
      const batch = files.slice(from, from + batchSize);
      const contents = await Promise.allSettled(batch.map(([, [path]]) => readStart(path!)));
      for (const [at, [id, [path, another]]] of batch.entries()) {
        if (another === undefined) await this.#take(id, path!, contents[at]!);
        else this.#report(another, `This stands beside ${basename(path!)}: one of them has to go`, id);
      }
    }
  }

  /** Those that are taken of too many: the ones that were taken before, then the first by name. */
  #taken(paths: ReadonlyMap<string, string[]>): [string, string[]][] {
    if (paths.size <= maxFiles) return [...paths];
    const [before, others] = [
      [...paths].filter(([id]) => this.#known.has(id)),
      [...paths].filter(([id]) => !this.#known.has(id)),
    ];
    const ordered = [...before, ...others];
    const left = ordered.slice(maxFiles).map(([id]) => id);
    this.#report(this.#root, `This holds ${paths.size} personas; at most ${maxFiles} are taken, and not ${few(left)}`);
    return ordered.slice(0, maxFiles);
  }

  async #readLabels(entries: readonly Entry[]): Promise<void> {
    const file = entries.find(({ name, kind }) => name === labelsFile && kind === "file");
    if (file === undefined) {
      this.labels = [];
      return;
    }
    try {
      const bytes = await readStart(file.path);
      if (bytes.length > maxFileBytes) return this.#report(file.path, `This is larger than ${maxFileBytes / 1024} KiB`);
      const parsed = parseLabels(utf8.decode(bytes), file.path);
      if ("labels" in parsed) this.labels = parsed.labels;
      else this.errors.push(...parsed.errors);
    } catch (error) {
      this.#report(file.path, `This can't be read: ${reasonOf(error)}`);
    }
  }

  async #listNamespace(namespace: string, folder: string, paths: Map<string, string[]>): Promise<void> {
    const problem = nameProblem(namespace);
    if (problem !== undefined) return this.#report(folder, `This can't name a namespace, which ${problem}`);
    for (const { name, path, kind } of await this.#list(folder, `${namespace}/`)) {
      if (kind === "folder" && !name.startsWith("_") && (await this.#holdsPersonas(path)))
        this.#report(path, "This is not read: a namespace holds files only");
      if (kind === "folder" || !extension.test(name) || isTestName(name)) continue;
      const id = `${namespace}/${name.replace(extension, "")}`;
      if (kind === "file") paths.set(id, [...(paths.get(id) ?? []), path]);
      else this.#report(path, kind === "missing" ? "This is a link to nothing" : "This is no regular file", id);
    }
  }

  /** False for a folder of what personas know. */
  async #holdsPersonas(folder: string): Promise<boolean> {
    const names = await readdir(folder).catch(() => []);
    return names.some((name) => extension.test(name) && !ignored.test(name));
  }

  /** @param below what the ids of its personas begin with */
  async #list(folder: string, below: string): Promise<Entry[]> {
    try {
      const entries = await readdir(folder, { withFileTypes: true });
      const seen = entries.filter(({ name }) => !ignored.test(name)).sort((a, b) => (a.name < b.name ? -1 : 1));
      return await Promise.all(seen.map((entry) => entryOf(folder, entry)));
    } catch (error) {
      this.#report(folder, `This can't be read: ${reasonOf(error)}`, below);
      return [];
    }
  }

  async #take(id: string, path: string, content: PromiseSettledResult<Uint8Array>): Promise<void> {
    try {
      if (content.status === "rejected") throw content.reason;
      const bytes = content.value;
      if (bytes.length > maxFileBytes) {
        this.#report(path, `This is larger than ${maxFileBytes / 1024} KiB`, id);
        return;
      }
      this.paths.set(id, path);
      const hash = Bun.SHA256.hash(bytes, "hex");
      const known = this.#known.get(id);
      const isSame = known?.hash === hash && (await this.#areSame(known));
      const read = isSame ? known : { hash, ...(await this.#parse(utf8.decode(bytes), path, id)) };
      this.files.set(id, read);
      if ("errors" in read.parsed) this.errors.push(...read.parsed.errors);
    } catch (error) {
      this.#report(path, `This can't be read: ${reasonOf(error)}`, id);
    }
  }

  async #areSame({ uses, hashes }: Read): Promise<boolean> {
    return uses.length === 0 || isSameList(hashes, await this.#partials.load(uses));
  }

  async #parse(text: string, path: string, id: string): Promise<Omit<Read, "hash">> {
    await this.#pause();
    this.#parsedBytes += text.length;
    const draft = draftPersona(text, path, id, this.#schema);
    if ("errors" in draft) return { parsed: draft, uses: [], hashes: [] };
    const { uses, ...parsed } = await resolveDraft(draft, this.#partials);
    for (const use of uses) this.#parsedBytes += this.#partials.sizeOf(use);
    return { parsed, uses, hashes: await this.#partials.load(uses) };
  }

  async #pause(): Promise<void> {
    if (this.#parsedBytes < sliceBytes) return;
    this.#parsedBytes = 0;
    await nextSlice();
  }

  /** @param unseen the id of the persona, or the beginning of those, that this keeps from being looked at: they stay as they were */
  #report(file: string, message: string, unseen?: string): void {
    this.errors.push({ file, line: 0, column: 0, path: "", message });
    const isPart = unseen === "" || unseen?.endsWith("/") === true;
    for (const [id, read] of this.#known) {
      if (id === unseen || (isPart && id.startsWith(unseen))) this.files.set(id, read);
    }
  }
}

type Entry = { readonly name: string; readonly path: string; readonly kind: "file" | "folder" | "missing" | "other" };

/** Links are followed: a mounted config map is made of them. */
async function entryOf(folder: string, entry: Dirent): Promise<Entry> {
  const path = join(folder, entry.name);
  const found = entry.isSymbolicLink() ? await stat(path).catch(() => undefined) : entry;
  const kind = found === undefined ? "missing" : found.isFile() ? "file" : found.isDirectory() ? "folder" : "other";
  return { name: entry.name, path, kind };
}
