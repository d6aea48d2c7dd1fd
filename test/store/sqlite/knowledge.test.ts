/** The index of knowledge: its files, its words and its changes. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdirSync, rmSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import fc from "fast-check";
import { collectionOf } from "../../../src/store/contract/knowledge.ts";
import { KnowledgeDatabase } from "../../../src/store/sqlite/knowledge/database.ts";
import { openKnowledgeIndex } from "../../../src/store/sqlite/knowledge/thread.ts";
import { matchQueryOf } from "../../../src/store/sqlite/knowledge/words.ts";
import { runs } from "../../helpers/long-form.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";

let folder: TempFolder;
let database: KnowledgeDatabase;
const write = (name: string, text: string | Uint8Array) => {
  mkdirSync(dirname(folder.file(name)), { recursive: true });
  writeFileSync(folder.file(name), text);
};
const collection = (namespace: string, ...globs: string[]) => collectionOf(folder.path, folder.file(namespace), globs);
const files = (of: { id: string }) => database.files(of.id).map(({ file }) => file);
const found = (of: { id: string }, question: string) =>
  database.search(of.id, question, 5).map(({ heading }) => heading);

beforeEach(() => {
  folder = new TempFolder();
  database = new KnowledgeDatabase();
});
afterEach(() => {
  database.close();
  folder[Symbol.dispose]();
});

describe("files", () => {
  test("are Markdown and text that a glob names, inside of the folder", async () => {
    using outside = new TempFolder();
    writeFileSync(outside.file("out.md"), "# Out\n\nout\n");
    write("a/one.md", "# One\n\nx\n");
    write("a/docs/two.txt", "two\n");
    write("a/docs/deep/three.markdown", "# Three\n\nx\n");
    write("a/docs/.hidden.md", "x\n");
    write("a/docs/picture.png", "x\n");
    write("a/docs/bad.md", new Uint8Array([0x23, 0xff, 0xfe]));
    write("b/four.md", "# Four\n\nx\n");
    symlinkSync(outside.file("out.md"), folder.file("a/docs/out.md"));
    symlinkSync(outside.path, folder.file("a/docs/away"));
    symlinkSync(folder.file("b/four.md"), folder.file("a/docs/linked.md"));
    symlinkSync("..", folder.file("a/docs/loop"));
    symlinkSync("nowhere", folder.file("a/docs/gone.md"));
    const all = collection("a", "**/*");
    const flat = collection("a", "*.md", "./docs/*.txt");
    const { problems } = await database.sync([all, flat]);
    expect(files(all)).toEqual(["docs/deep/three.markdown", "docs/linked.md", "docs/two.txt", "one.md"]);
    expect(files(flat)).toEqual(["docs/two.txt", "one.md"]);
    const { path } = folder;
    expect([...problems].sort()).toEqual([
      `${path}/a/docs/away leads out of ${path}, and is not read`,
      `${path}/a/docs/bad.md can't be read: it is not UTF-8`,
      `${path}/a/docs/out.md leads out of ${path}, and is not read`,
    ]);
  });

  test("a namespace that leads out of the folder holds none", async () => {
    using outside = new TempFolder();
    writeFileSync(outside.file("out.md"), "# Out\n\nout\n");
    symlinkSync(outside.path, folder.file("a"));
    const all = collection("a", "*.md");
    expect((await database.sync([all])).problems).toHaveLength(1);
    expect(files(all)).toEqual([]);
  });

  test("2000 files are indexed; then those alone that changed", async () => {
    for (let at = 0; at < 2000; at += 1) write(`a/docs/${at}.md`, `# Part ${at}\n\nnumber${at} of many\n`);
    const old = new Date(Date.now() - 60_000);
    for (let at = 0; at < 2000; at += 1) utimesSync(folder.file(`a/docs/${at}.md`), old, old);
    const all = collection("a", "docs/*.md");
    expect(await database.sync([all])).toMatchObject({ files: 2000, sections: 2000, indexed: 2000 });
    expect(await database.sync([all])).toMatchObject({ files: 2000, indexed: 0 });
    write("a/docs/7.md", "# Changed\n\nnew words\n");
    rmSync(folder.file("a/docs/8.md"));
    expect(await database.sync([all])).toMatchObject({ files: 1999, sections: 1999, indexed: 1, removed: 1 });
    expect(found(all, "number7")).toEqual([]);
    expect(found(all, "number8")).toEqual([]);
    expect(found(all, "number1999")).toEqual(["Part 1999"]);
    expect(found(all, "new words")).toEqual(["Changed"]);
  });

  test("two personas share a file, which is indexed once and stays while one has it", async () => {
    write("a/docs/one.md", "# One\n\nshared\n");
    const first = collection("a", "docs/*.md");
    const second = collection("a", "docs/one.md");
    expect(await database.sync([first, second])).toMatchObject({ files: 1, sections: 1 });
    expect([found(first, "shared"), found(second, "shared")]).toEqual([["One"], ["One"]]);
    write("a/docs/two.md", "# Two\n\nsecond\n");
    await database.sync([first, second]);
    expect([found(first, "second"), found(second, "second")]).toEqual([["Two"], []]);
  });

  test("that change while they are read are read again: no state is shown that never was", async () => {
    // Takes longer than a slice of work, so that others have their turn before the next file is read.
    const words = "## Part\n\nmany words of it\n\n".repeat(5_000);
    let state = 0;
    const put = () => {
      state += 1;
      write("a/1.md", `# First\n\nstate${state}\n\n${words}`);
      write("a/2.md", `# Second\n\nstate${state}\n`);
      rmSync(folder.file(`a/new${state - 1}.md`), { force: true });
      write(`a/new${state}.md`, `# New\n\nstate${state}\n`);
    };
    put();
    const all = collection("a", "*.md");
    // First between the list of them and the first that is read, then between two of them.
    const report = await database.sync([all], async () => {
      if (state < 4) put();
    });
    expect(report).toMatchObject({ files: 3, problems: [] });
    expect(files(all)).toEqual(["1.md", "2.md", "new4.md"]);
    expect(found(all, "state4").sort()).toEqual(["First", "New", "Second"]);
  });

  test("that change without end are indexed all the same", async () => {
    write("a/one.md", "# One\n\nstill\n");
    const all = collection("a", "*");
    let log = "";
    const grow = async () => {
      log += "line\n";
      write("a/log.txt", log);
    };
    expect(await database.sync([all], grow)).toMatchObject({ files: 2, problems: [] });
    expect(found(all, "still")).toEqual(["One"]);
    expect(found(all, "line")).toEqual([""]);
  });
});

describe("questions", () => {
  test("any text is one", async () => {
    write("a/one.md", "# One\n\nNEAR text AND more OR less\n");
    const all = collection("a", "*.md");
    await database.sync([all]);
    const odd = [
      '"',
      "*",
      "NEAR(",
      "a AND",
      "text:x",
      "^x",
      "(",
      "'; drop table files",
      "-x",
      "{a b}: x",
      "\0",
      "\ud800",
    ];
    for (const question of odd) expect(() => database.search(all.id, question, 5)).not.toThrow();
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 5000 }), (question) => {
        database.search(all.id, question, 5);
      }),
      { numRuns: runs(500) },
    );
    expect(found(all, '"text" OR)')).toEqual(["One"]);
  });

  test("words count without case and accents, by their stems and beginnings; in other scripts by pairs", async () => {
    write("a/en.md", "# Returns\n\nWe are refunding cafés.\n");
    write("a/de.md", "# Rückgaberecht\n\nDie Rücksendungen sind frei.\n");
    write("a/ja.md", "# 返品について\n\n東京都の返品は無料です。\n");
    write("a/ko.md", "# 환불\n\n환불은 십사일 안에 됩니다.\n");
    const all = collection("a", "*.md");
    await database.sync([all]);
    expect(found(all, "refunded CAFE?")).toEqual(["Returns"]);
    expect(found(all, "Rucksendung")).toEqual(["Rückgaberecht"]);
    expect(found(all, "rückgabe")).toEqual(["Rückgaberecht"]);
    expect(found(all, "東京で返品")).toEqual(["返品について"]);
    expect(found(all, "환불이 언제")).toEqual(["환불"]);
    expect(found(all, "the of and how")).toEqual([]);
  });

  test("words of headings count more, and chance matches are left out", async () => {
    write(
      "a/one.md",
      "# Delivery\n\nParcels come by bike.\n\n# Payment\n\nPay on delivery or before. Cards are taken.\n",
    );
    for (let at = 0; at < 20; at += 1) write(`a/other${at}.md`, `# Other ${at}\n\nparcels of something else\n`);
    const all = collection("a", "*.md");
    await database.sync([all]);
    expect(found(all, "delivery")).toEqual(["Delivery", "Payment"]);
    const [first, second] = database.search(all.id, "delivery", 5);
    expect(first!.score).toBeGreaterThan(second!.score);
    expect(found(all, "delivery of parcels by bike")[0]).toBe("Delivery");
    expect(found(all, "delivery of parcels by bike")).not.toContain("Other 3");
  });

  test("at most 32 words count, of the beginning and the end of a long question", () => {
    const words = matchQueryOf(Array.from({ length: 5000 }, (_, at) => `word${at}`).join(" "))!.split(" OR ");
    expect(words).toHaveLength(32);
    expect(matchQueryOf("!?")).toBeUndefined();
    expect(matchQueryOf(`${"x".repeat(9000)} last`)).toContain('"last"');
  });
});

test("a thread that takes the place of one that failed knows what that knew", async () => {
  write("a/one.md", "# One\n\nkept\n");
  const all = collection("a", "*.md");
  const started: Worker[] = [];
  const { Worker: Real } = globalThis;
  globalThis.Worker = class extends Real {
    constructor(...args: ConstructorParameters<typeof Real>) {
      super(...args);
      started.push(this);
    }
  };
  const index = openKnowledgeIndex();
  try {
    await index.sync([all]);
    const gone = new Promise((resolve) => started[0]!.addEventListener("close", resolve));
    started[0]!.terminate();
    await gone;
    expect(await index.search(all.id, "kept", 1)).toHaveLength(1);
    expect(started).toHaveLength(2);
  } finally {
    globalThis.Worker = Real;
    await index.close();
  }
});

test("questions during a change find the whole old state or the whole new one", async () => {
  const names = Array.from({ length: 300 }, (_, at) => `a/${at}.md`);
  const all = collection("a", "*.md");
  const index = openKnowledgeIndex();
  try {
    for (const name of names) write(name, "# Part\n\nold state\n");
    await index.sync([all]);
    const counts = new Set<string>();
    for (const state of ["new", "old", "new"]) {
      for (const name of names) write(name, `# Part\n\n${state} state ${state === "new" ? "fresh" : "stale"}\n`);
      let isOver = false;
      const change = index.sync([all]).finally(() => {
        isOver = true;
      });
      while (!isOver) {
        const hits = await index.search(all.id, "state", 400);
        counts.add(`${hits.filter(({ text }) => text.includes("new")).length}`);
        expect(hits).toHaveLength(300);
      }
      await change;
    }
    expect([...counts].every((count) => count === "0" || count === "300")).toBe(true);
  } finally {
    await index.close();
  }
});
