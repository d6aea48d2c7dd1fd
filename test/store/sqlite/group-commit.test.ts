import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { StorageError } from "../../../src/store/contract/storage-error.ts";
import { GroupCommit } from "../../../src/store/sqlite/group-commit.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";

class House implements Disposable {
  readonly folder = new TempFolder();
  readonly database = new Database(this.folder.file("a.db"), { strict: true, create: true });
  readonly shared = new GroupCommit(this.database, "a.db");

  constructor() {
    this.database.run("pragma journal_mode = wal");
    this.database.run("create table words (word text primary key) strict");
  }

  add(word: string): Promise<string> {
    return this.shared.run(() => {
      this.database.run("insert into words values (?)", [word]);
      return word;
    });
  }

  /** What another connection sees, which is what was committed. */
  committed(): unknown[] {
    using other = new Database(this.folder.file("a.db"), { readonly: true });
    return other.query("select word from words order by word").values().flat();
  }

  [Symbol.dispose](): void {
    this.database.close();
    this.folder[Symbol.dispose]();
  }
}

describe("a shared commit", () => {
  test("keeps what came in one turn together, and tells each when it is kept", async () => {
    using house = new House();
    let commits = 0;
    const seen = () => house.database.query<{ data_version: number }, []>("pragma data_version").get();
    const before = seen();
    const words = ["b", "a", "c"].map(async (word) => {
      const result = await house.add(word);
      expect(house.committed()).toEqual(["a", "b", "c"]);
      commits += 1;
      return result;
    });
    expect(house.committed()).toEqual([]);
    expect(await Promise.all(words)).toEqual(["b", "a", "c"]);
    expect([commits, seen()]).toEqual([3, before]);
    expect(await house.add("d")).toBe("d");
    expect(house.committed()).toEqual(["a", "b", "c", "d"]);
  });

  test("writes what is asked for in one turn by one call, and the next turn's by another, each with its answer", async () => {
    using house = new House();
    const asked: (readonly string[])[] = [];
    const ask = house.shared.together((words: readonly string[]) => {
      asked.push([...words]);
      return words.map((word) => {
        house.database.run("insert into words values (?)", [word]);
        return word.toUpperCase();
      });
    });
    expect(await Promise.all(["b", "a"].map(ask))).toEqual(["B", "A"]);
    const flushed = ask("c");
    house.shared.flush();
    const later = ask("d");
    expect(await Promise.all([flushed, later])).toEqual(["C", "D"]);
    // A group that fails keeps nothing, and those behind it are written.
    const failing = await Promise.allSettled(["e", "a", "f"].map(ask));
    expect(failing.map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
    expect(await ask("g")).toBe("G");
    expect(asked).toEqual([["b", "a"], ["c"], ["d"], ["e", "a", "f"], ["g"]]);
    expect(house.committed()).toEqual(["a", "b", "c", "d", "g"]);
  });

  test("flush does it now; without anything to do it does nothing", async () => {
    using house = new House();
    house.shared.flush();
    const word = house.add("a");
    house.shared.flush();
    expect(house.committed()).toEqual(["a"]);
    expect(await word).toBe("a");
  });

  test("a write that fails takes its company with it, and not those after it", async () => {
    using house = new House();
    await house.add("a");
    const outcomes = await Promise.allSettled([house.add("b"), house.add("a"), house.add("c")]);
    expect(outcomes.map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
    expect(house.committed()).toEqual(["a"]);
    await house.add("d");
    expect(house.committed()).toEqual(["a", "d"]);
  });

  test("on a full disk everyone hears a StorageError", async () => {
    using house = new House();
    house.database.run("pragma max_page_count = 4");
    const fill = () => Promise.all(["x", "y"].map((word) => house.add(word.repeat(9000))));
    const error = await fill().then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    expect(error).toBeInstanceOf(StorageError);
    expect((error as StorageError).kind).toBe("full");
    expect(house.committed()).toEqual([]);
  });
});
