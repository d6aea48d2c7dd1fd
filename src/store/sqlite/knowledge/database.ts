/**
 * The index of knowledge in one SQLite file: sections of files, and FTS5 over their words. Whoever reads it sees one whole state, as a
 * change is one transaction. A file that is damaged is made again. Source: https://www.sqlite.org/fts5.html
 */
import { Database } from "bun:sqlite";
import { closeSync, openSync, rmSync, statSync } from "node:fs";
import { basename } from "node:path";
import type { FoundSection } from "../../../lib/text-sections.ts";
import { splitSections, type TextSection } from "../../../lib/text-sections.ts";
import type { Collection, IndexedFile, KnowledgeReport } from "../../knowledge.ts";
import type { CollectionFile } from "./files.ts";
import { type ReadFile, Reading } from "./reading.ts";
import { indexable, queryOf } from "./words.ts";

/** Part of its file's name: another version's file is another file. */
const schemaVersion = 1;
export const knowledgeName = `knowledge-${schemaVersion}.db`;

const maxHeading = 300;
/** Collections that nobody asked to keep for so long are removed: other processes may still know what this one does not. */
const unusedMs = 86_400_000;
const touchMs = 600_000;
/** Work that is done before others get their turn. */
const sliceMs = 8;
/** Of the best section's score: what is below it shares a word by chance. */
const minShare = 0.3;
const busyMs = 10_000;
/** Waits for another process that writes: between two tries, and altogether. */
const retryMs = 20;
const maxWaitMs = 120_000;
/** Files that change while they are read are being written: waits for whoever writes them, and how often at most. */
const restMs = 100;
const maxRests = 10;
/** A write-ahead log goes back to this size. */
const logBytes = 1_048_576;

const tables = `
create table if not exists files (
  id integer primary key, path text not null unique, hash text not null, bytes integer not null,
  stamp text not null, read_at integer not null
) strict;
create table if not exists collections (id text primary key, seen_at integer not null) strict, without rowid;
create table if not exists members (
  collection text not null, file integer not null, name text not null, primary key (collection, file)
) strict, without rowid;
create index if not exists members_by_file on members (file);
create table if not exists sections (
  id integer primary key, file integer not null, heading text not null,
  first_line integer not null, last_line integer not null, text text not null
) strict;
create index if not exists sections_by_file on sections (file);
create virtual table if not exists words using fts5(
  heading, text, content='', contentless_delete=1, tokenize='porter unicode61 remove_diacritics 2'
);
insert into words(words, rank) values ('rank', 'bm25(4.0, 1.0)');
pragma user_version = ${schemaVersion};
`;

type SectionRow = {
  name: string;
  heading: string;
  first_line: number;
  last_line: number;
  text: string;
  score: number;
};

export class KnowledgeDatabase {
  readonly #path: string | undefined;
  readonly #now: () => number;
  #writer!: Database;
  #reader!: Database;
  #inode = 0;

  /** @param path of its file, which is made; absent: it is in memory */
  constructor(path?: string, now: () => number = Date.now) {
    this.#path = path;
    this.#now = now;
    this.#open();
  }

  /**
   * @param pause lets others have their turn; called between slices of work
   * @param isLost true where the file was found to be damaged, so that it is made again
   */
  async sync(
    collections: readonly Collection[],
    pause: () => Promise<void> = () => Promise.resolve(),
    isLost = false,
  ): Promise<KnowledgeReport> {
    if (isLost) this.#startAnew();
    this.#reopenIfReplaced();
    try {
      return await this.#sync(collections, pause);
    } catch (error) {
      if (!isDamaged(error)) throw error;
      this.#startAnew();
      return await this.#sync(collections, pause);
    }
  }

  /** @returns the best first, and none of chance */
  search(collection: string, question: string, limit: number): FoundSection[] {
    const query = queryOf(question);
    if (query === undefined) return [];
    // FTS5 sorts, and stands in the outer loop: the rest is read of the best rows alone.
    const rows = this.#reader
      .query<SectionRow, [string, string, number]>(
        `select m.name, s.heading, s.first_line, s.last_line, s.text, -words.rank as score from words
         cross join sections s on s.id = words.rowid cross join members m on m.collection = ? and m.file = s.file
         where words match ? order by words.rank limit ?`,
      )
      .all(collection, query, limit);
    const top = rows[0]?.score ?? 0;
    return rows.filter(({ score }) => score >= top * minShare).map(toFound);
  }

  files(collection: string): IndexedFile[] {
    return this.#reader
      .query<IndexedFile, [string]>(
        `select m.name as file, (select count(*) from sections s where s.file = f.id) as sections, f.bytes as bytes
         from members m join files f on f.id = m.file where m.collection = ? order by m.name`,
      )
      .all(collection);
  }

  close(): void {
    this.#writer.close();
    if (this.#reader !== this.#writer) this.#reader.close();
  }

  async #sync(collections: readonly Collection[], pause: () => Promise<void>): Promise<KnowledgeReport> {
    const reading = new Reading(this.#writer, collections, pause);
    const slice = new Slice(pause);
    const changed: string[] = [];
    for (const path of (await reading.look()) ?? []) {
      if (reading.hasChanged(path)) changed.push(path);
      await slice.turn();
    }
    if (changed.length > 0 || this.#membersDiffer(reading)) await this.#write(changed, reading, slice);
    const count = (table: string) =>
      this.#writer.query<{ n: number }, []>(`select count(*) as n from ${table}`).get()!.n;
    return {
      files: count("files"),
      sections: count("sections"),
      indexed: reading.indexed,
      removed: reading.removed,
      problems: reading.problems,
    };
  }

  #membersDiffer(reading: Reading): boolean {
    const now = this.#now();
    return reading.wanted.some(({ id, files }) => {
      const row = this.#writer
        .query<{ seen_at: number }, [string]>("select seen_at from collections where id = ?")
        .get(id);
      if (row === null || row.seen_at < now - touchMs) return true;
      const members = this.#writer
        .query<{ name: string; path: string }, [string]>(
          "select m.name, f.path from members m join files f on f.id = m.file where m.collection = ? order by m.name",
        )
        .all(id);
      const kept = files.filter(({ path }) => reading.isKept(path));
      return !Bun.deepEquals(members, uniqueFiles(kept));
    });
  }

  /**
   * Reads the files once more, one by one: the memory of one is enough. Those that change meanwhile are read again, so that what is
   * committed stood there all at once, unless they change without end.
   */
  async #write(changed: readonly string[], reading: Reading, slice: Slice): Promise<void> {
    const database = this.#writer;
    await beginAlone(database);
    try {
      const indexed = new Set<string>();
      let due: readonly string[] | undefined = changed;
      for (let rests = 0; ; rests += 1) {
        for (const path of due) {
          const file = reading.read(path);
          if (file !== undefined && putFile(database, file, this.#now())) indexed.add(path);
          await slice.turn();
        }
        due = await reading.look();
        if (due === undefined || rests === maxRests) break;
        await Bun.sleep(restMs);
      }
      reading.indexed = indexed.size;
      const now = this.#now();
      for (const { id, files } of reading.wanted) {
        database
          .query("insert into collections values (?, ?) on conflict do update set seen_at = excluded.seen_at")
          .run(id, now);
        database.query("delete from members where collection = ?").run(id);
        const add = database.query("insert or ignore into members select ?, id, ? from files where path = ?");
        for (const { name, path } of files) if (reading.isKept(path)) add.run(id, name, path);
        await slice.turn();
      }
      database.query("delete from collections where seen_at < ?").run(now - unusedMs);
      database.run("delete from members where collection not in (select id from collections)");
      const unused = database
        .query<{ id: number }, []>("select id from files where id not in (select file from members)")
        .all();
      for (const { id } of unused) {
        removeSections(database, id);
        database.query("delete from files where id = ?").run(id);
        await slice.turn();
      }
      reading.removed = unused.length;
      database.run("commit");
    } catch (error) {
      if (database.inTransaction) database.run("rollback");
      throw error;
    }
  }

  #open(): void {
    const path = this.#path;
    try {
      this.#openFile();
    } catch (error) {
      if (path === undefined || !isDamaged(error)) throw error;
      removeDatabase(path);
      this.#openFile();
    }
  }

  #openFile(): void {
    const path = this.#path;
    if (path === undefined) {
      this.#writer = new Database(":memory:");
      this.#writer.run(tables);
      this.#reader = this.#writer;
      return;
    }
    closeSync(openSync(path, "a", 0o600));
    const writer = new Database(path, { readwrite: true });
    try {
      writer.run(`pragma busy_timeout = ${busyMs}`);
      writer.run("pragma journal_mode = wal");
      writer.run(`pragma journal_size_limit = ${logBytes}`);
      // A power cut may lose the last change, which the files still have.
      writer.run("pragma synchronous = normal");
      if (writer.query<{ user_version: number }, []>("pragma user_version").get()!.user_version !== schemaVersion) {
        writer.run(`begin immediate; ${tables} commit;`);
      }
      writer.query("select count(*) from words where words match 'x'").get();
      this.#reader = new Database(path, { readonly: true });
      this.#reader.run(`pragma busy_timeout = ${busyMs}`);
      // Another process may write for seconds, in which this thread has questions to answer.
      writer.run("pragma busy_timeout = 0");
    } catch (error) {
      writer.close();
      throw error;
    }
    this.#writer = writer;
    this.#inode = statSync(path).ino;
  }

  #startAnew(): void {
    if (this.#path === undefined) return;
    this.close();
    removeDatabase(this.#path);
    this.#open();
  }

  /** Another process may have found it damaged, or somebody deleted it. */
  #reopenIfReplaced(): void {
    if (this.#path === undefined) return;
    if (statSync(this.#path, { throwIfNoEntry: false })?.ino === this.#inode) return;
    this.close();
    this.#open();
  }
}

/** @throws SQLITE_BUSY where another process writes for too long */
async function beginAlone(database: Database): Promise<void> {
  const since = performance.now();
  for (;;) {
    try {
      database.run("begin immediate");
      return;
    } catch (error) {
      const isBusy = String((error as { code?: string }).code).startsWith("SQLITE_BUSY");
      if (!isBusy || performance.now() - since > maxWaitMs) throw error;
      await Bun.sleep(retryMs);
    }
  }
}

/** A file that has two names in a collection counts once. */
function uniqueFiles(files: readonly CollectionFile[]): { name: string; path: string }[] {
  const names = new Map<string, string>();
  for (const { name, path } of files) if (!names.has(path)) names.set(path, name);
  return [...names].map(([path, name]) => ({ name, path }));
}

/** @returns false where its bytes are those that are indexed, perhaps by another process meanwhile */
function putFile(database: Database, { path, hash, stamp, bytes, text }: ReadFile, now: number): boolean {
  const known = database.query<{ hash: string }, [string]>("select hash from files where path = ?").get(path);
  const { id } = database
    .query<{ id: number }, [string, string, number, string, number]>(
      `insert into files (path, hash, bytes, stamp, read_at) values (?, ?, ?, ?, ?) on conflict do update
       set hash = excluded.hash, bytes = excluded.bytes, stamp = excluded.stamp, read_at = excluded.read_at returning id`,
    )
    .get(path, hash, bytes, stamp, now)!;
  if (known?.hash === hash) return false;
  removeSections(database, id);
  const isMarkdown = !/\.te?xt$/i.test(basename(path));
  const add = database.query<{ id: number }, [number, string, number, number, string]>(
    "insert into sections (file, heading, first_line, last_line, text) values (?, ?, ?, ?, ?) returning id",
  );
  const index = database.query("insert into words (rowid, heading, text) values (?, ?, ?)");
  for (const section of splitSections(text, isMarkdown)) {
    if (isBare(section)) continue;
    const heading = section.headings.join(" > ").slice(0, maxHeading);
    const row = add.get(id, heading, section.firstLine, section.lastLine, section.text.trim())!;
    index.run(row.id, indexable(heading), indexable(section.text));
    // BM25 of FTS5 gives words of more than half of all rows no weight, as few sections' are: an empty row for each makes that none.
    index.run(-row.id, "", "");
  }
  return true;
}

/** True for a section without a text of its own, such as a heading right above another. */
function isBare({ headings, text }: TextSection): boolean {
  const words = text.trim();
  return words === "" || words.replace(/^[#\s]+|[#=\s-]+$/g, "") === (headings.at(-1) ?? "");
}

function removeSections(database: Database, file: number): void {
  for (const sign of ["", "-"]) {
    database.query(`delete from words where rowid in (select ${sign}id from sections where file = ?)`).run(file);
  }
  database.query("delete from sections where file = ?").run(file);
}

/** Lets others have their turn after some milliseconds of work. */
class Slice {
  readonly #pause: () => Promise<void>;
  #since = performance.now();

  constructor(pause: () => Promise<void>) {
    this.#pause = pause;
  }

  async turn(): Promise<void> {
    if (performance.now() - this.#since < sliceMs) return;
    await this.#pause();
    this.#since = performance.now();
  }
}

function toFound({ name, heading, first_line, last_line, text, score }: SectionRow): FoundSection {
  return { file: name, heading, firstLine: first_line, lastLine: last_line, text, score };
}

function removeDatabase(path: string): void {
  for (const suffix of ["", "-wal", "-shm"]) rmSync(path + suffix, { force: true });
}

/** https://www.sqlite.org/rescode.html: SQLITE_CORRUPT and SQLITE_NOTADB with their extended codes, and tables that are not ours */
export function isDamaged(error: unknown): boolean {
  const { code = "", message = "" } = error as { code?: string; message?: string };
  return /^SQLITE_(?:CORRUPT|NOTADB)/.test(code) || /malformed|no such (?:table|column)|not a database/.test(message);
}
