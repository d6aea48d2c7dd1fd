/**
 * The index of knowledge in memory: sections of files, and FTS5 over their words, by SQLite. A change is one transaction; who asks while
 * it lasts waits for its end. Source: https://www.sqlite.org/fts5.html
 */
import { Database } from "bun:sqlite";
import { basename } from "node:path";
import type { FoundSection } from "../../../lib/text/sections.ts";
import { splitSections, type TextSection } from "../../../lib/text/sections.ts";
import type { Collection, IndexedFile, KnowledgeReport } from "../../contract/knowledge.ts";
import type { CollectionFile } from "./files.ts";
import { type KnowledgeFile, KnowledgeReading } from "./reading.ts";
import { indexable, matchQueryOf } from "./words.ts";

const maxHeading = 300;
/** Work that is done before others get their turn. */
const sliceMs = 8;
/** Of the best section's score: what is below it shares a word by chance. */
const minShare = 0.3;
/** Files that change while they are read are being written: waits for whoever writes them, and how often at most. */
const betweenLooksMs = 100;
const maxLooks = 10;
const tables = `
create table files (
  id integer primary key, path text not null unique, hash text not null, bytes integer not null,
  stamp text not null, read_at integer not null
) strict;
create table members (
  collection text not null, file integer not null, name text not null, primary key (collection, file)
) strict, without rowid;
create index members_by_file on members (file);
create table sections (
  id integer primary key, file integer not null, heading text not null,
  first_line integer not null, last_line integer not null, text text not null
) strict;
create index sections_by_file on sections (file);
create virtual table words using fts5(
  heading, text, content='', contentless_delete=1, tokenize='porter unicode61 remove_diacritics 2'
);
insert into words(words, rank) values ('rank', 'bm25(4.0, 1.0)');
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
  readonly #database = new Database(":memory:");

  constructor() {
    this.#database.run(tables);
  }

  /** Changes run one after the other. @param pause lets others have their turn; called between slices of work */
  async sync(
    collections: readonly Collection[],
    pause: () => Promise<void> = () => Promise.resolve(),
  ): Promise<KnowledgeReport> {
    const reading = new KnowledgeReading(this.#database, collections, pause);
    const slice = new Slice(pause);
    const changed: string[] = [];
    for (const path of (await reading.look()) ?? []) {
      if (reading.hasChanged(path)) changed.push(path);
      await slice.turn();
    }
    if (changed.length > 0 || this.#membersDiffer(reading)) await this.#write(changed, reading, slice);
    const count = (table: string) =>
      this.#database.query<{ n: number }, []>(`select count(*) as n from ${table}`).get()!.n;
    return {
      files: count("files"),
      sections: count("sections"),
      indexed: reading.indexed,
      removed: reading.removed,
      problems: reading.problems,
    };
  }

  /** @returns the best first, and none of chance */
  search(collection: string, question: string, limit: number): FoundSection[] {
    const query = matchQueryOf(question);
    if (query === undefined) return [];
    // FTS5 sorts, and stands in the outer loop: the rest is read of the best rows alone.
    const rows = this.#database
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
    return this.#database
      .query<IndexedFile, [string]>(
        `select m.name as file, (select count(*) from sections s where s.file = f.id) as sections, f.bytes as bytes
         from members m join files f on f.id = m.file where m.collection = ? order by m.name`,
      )
      .all(collection);
  }

  close(): void {
    this.#database.close();
  }

  #membersDiffer(reading: KnowledgeReading): boolean {
    const known = this.#database
      .query<{ n: number }, []>("select count(distinct collection) as n from members")
      .get()!.n;
    let filled = 0;
    const differs = reading.wanted.some(({ id, files }) => {
      const members = this.#database
        .query<{ name: string; path: string }, [string]>(
          "select m.name, f.path from members m join files f on f.id = m.file where m.collection = ? order by m.name",
        )
        .all(id);
      filled += Number(members.length > 0);
      return !Bun.deepEquals(members, uniqueFiles(files.filter(({ path }) => reading.isKept(path))));
    });
    return differs || known !== filled;
  }

  /**
   * Reads the files once more, one by one: the memory of one is enough. Those that change meanwhile are read again, so that what is
   * committed stood there all at once, unless they change without end.
   */
  async #write(changed: readonly string[], reading: KnowledgeReading, slice: Slice): Promise<void> {
    const database = this.#database;
    database.run("begin");
    try {
      const indexed = new Set<string>();
      let due: readonly string[] | undefined = changed;
      for (let looks = 0; ; looks += 1) {
        for (const path of due) {
          const file = reading.read(path);
          if (file !== undefined && putFile(database, file)) indexed.add(path);
          await slice.turn();
        }
        due = await reading.look();
        if (due === undefined || looks === maxLooks) break;
        await Bun.sleep(betweenLooksMs);
      }
      reading.indexed = indexed.size;
      database.run("delete from members");
      const add = database.query("insert or ignore into members select ?, id, ? from files where path = ?");
      for (const { id, files } of reading.wanted) {
        for (const { name, path } of files) if (reading.isKept(path)) add.run(id, name, path);
        await slice.turn();
      }
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
}

/** A file that has two names in a collection counts once. */
function uniqueFiles(files: readonly CollectionFile[]): { name: string; path: string }[] {
  const names = new Map<string, string>();
  for (const { name, path } of files) if (!names.has(path)) names.set(path, name);
  return [...names].map(([path, name]) => ({ name, path }));
}

/** @returns false where its bytes are those that are indexed */
function putFile(database: Database, { path, hash, stamp, bytes, text }: KnowledgeFile): boolean {
  const known = database.query<{ hash: string }, [string]>("select hash from files where path = ?").get(path);
  const { id } = database
    .query<{ id: number }, [string, string, number, string, number]>(
      `insert into files (path, hash, bytes, stamp, read_at) values (?, ?, ?, ?, ?) on conflict do update
       set hash = excluded.hash, bytes = excluded.bytes, stamp = excluded.stamp, read_at = excluded.read_at returning id`,
    )
    .get(path, hash, bytes, stamp, Date.now())!;
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
