import { describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";

const src = resolve(import.meta.dir, "../src");
/** Each floor knows those before it; rooms of one floor do not know each other. */
const floors: readonly (readonly string[])[] = [
  ["lib"],
  ["protocols"],
  ["api", "config"],
  ["store"],
  ["facts"],
  ["providers"],
  ["personas"],
  ["upstream", "mcp"],
  ["auth", "limits", "idempotency", "conversations", "usage", "observability"],
  ["call"],
  ["operate"],
  ["http"],
  ["console"],
  ["admin"],
  ["account"],
  ["server"],
  ["cli"],
];
const rankOf = (room: string) => floors.findIndex((rooms) => rooms.includes(room));
/** Pure floors, which know only the first two; the console runs in browsers, and knows the shapes of the admin API alone, by type. */
const narrow: Record<string, readonly string[]> = {
  api: ["lib", "protocols"],
  console: ["api"],
  facts: ["lib", "protocols"],
  providers: ["lib", "protocols", "facts"],
  personas: ["lib", "protocols", "api", "facts"],
};

const files = readdirSync(src, { recursive: true, encoding: "utf8" }).filter((path) => /\.tsx?$/.test(path));

function importsOf(path: string): string[] {
  const text = readFileSync(join(src, path), "utf8");
  const found = [...text.matchAll(/(?:from|import)\s*\(?\s*"(\.[^"]+)"/g)].map((match) => match[1]!);
  return found
    .map((target) => relative(src, resolve(src, dirname(path), target)))
    .filter((target) => !target.startsWith(".."));
}

const floorOf = (path: string) => path.split("/")[0]!;

describe("floors", () => {
  test("a file imports only its own folder and the floors below it, and none lies loose in lib", () => {
    const wrong: string[] = [];
    for (const path of files) {
      const own = floorOf(path);
      if (!path.includes("/")) continue; // main.ts and build-info.ts stand beside the floors
      expect(floors.flat()).toContain(own);
      for (const target of importsOf(path)) {
        const other = floorOf(target);
        if (other === own || target === "build-info.ts") continue;
        const allowed = narrow[own]?.includes(other) ?? rankOf(other) < rankOf(own);
        if (!allowed) wrong.push(`${path} imports ${target}`);
      }
    }
    expect(wrong).toEqual([]);
    expect(files.length).toBeGreaterThan(5);
    expect(files.filter((path) => /^lib\/[^/]+$/.test(path))).toEqual([]);
  });

  test("what browsers run has no code of the shapes that it reads", () => {
    const wrong = files
      .filter((path) => /^(?:console|account\/browser)\//.test(path))
      .filter((path) => /^import (?!type )[^;]*\/api\/[a-z-]+\.ts";/m.test(readFileSync(join(src, path), "utf8")));
    expect(wrong).toEqual([]);
  });

  test("only store/sqlite opens SQLite, and who keeps something knows the interfaces alone", () => {
    const opening = files.filter((path) => readFileSync(join(src, path), "utf8").includes('"bun:sqlite"'));
    expect(opening.filter((path) => !path.startsWith("store/sqlite/"))).toEqual([]);
    expect(opening).not.toEqual([]);
    // Rooms that keep things do so through the interfaces of store/contract.
    const rooms = ["auth", "idempotency", "usage", "http"];
    const wrong = files.filter(
      (path) =>
        rooms.includes(floorOf(path)) &&
        importsOf(path).some((target) => /^store\/(?:postgres|redis|sql|sqlite)\//.test(target)),
    );
    expect(wrong).toEqual([]);
  });

  test("no file imports itself, however far round", () => {
    const imports = new Map(files.map((path) => [path, importsOf(path).filter((target) => target.endsWith(".ts"))]));
    const cycles: string[] = [];
    const done = new Set<string>();
    const visit = (path: string, way: readonly string[]): void => {
      const at = way.indexOf(path);
      if (at >= 0) cycles.push([...way.slice(at), path].join(" → "));
      if (at >= 0 || done.has(path)) return;
      for (const target of imports.get(path) ?? []) visit(target, [...way, path]);
      done.add(path);
    };
    for (const path of files) visit(path, []);
    expect(cycles).toEqual([]);
  });

  test("a format's last event is written in its own folder, and read by those who decode upstreams", () => {
    const named = files.filter((path) => readFileSync(join(src, path), "utf8").includes("[DONE]"));
    expect(named.filter((path) => !path.startsWith("providers/"))).toEqual(["protocols/chat/stream.ts"]);
  });

  /**
   * Left out are rooms that have their own words by contract: the shapes of the API, which are named as what they show, formats (but for chat, the
   * inner form), what browsers run, commands, which are named as their acts, routes, and databases, which hold the same repositories.
   */
  test("no file is longer than can be read at once", () => {
    const linesOf = (path: string) => readFileSync(join(src, path), "utf8").split("\n").length - 1;
    expect(files.filter((path) => linesOf(path) > 450)).toEqual([]);
  });

  test("one exported name means one thing", () => {
    const known: Readonly<Record<string, string>> = {
      Source: "what a flow begins with (lib/streams), and the text that a request was parsed of (protocols)",
      operatorOf: "who acts: by HTTP, and at a terminal",
      oneOf: "fields of settings, and of the API's parameters",
      text: "fields of settings, and of the API's parameters",
      errorForm: "a format's errors in the API's description, where its file holds more than one operation",
      serve: "an HTTP request, and the command",
    };
    const own =
      /^(?:api|console|account\/browser)\/|^protocols\/(?!(?:chat|body|billed|state)\/)[^/]+\/|^providers\/[^/]+\//;
    const commands = new Set(readFileSync(join(src, "cli/actions.ts"), "utf8").match(/\w+/g));
    const places = new Map<string, Set<string>>();
    for (const path of files.filter((one) => !own.test(one)))
      for (const [, name = ""] of readFileSync(join(src, path), "utf8").matchAll(
        /^export (?:abstract |async )?(?:class|const|function\*?|interface|let|type) (\w+)/gm,
      )) {
        if (name.endsWith("Routes") || (path.startsWith("cli/") && commands.has(name))) continue;
        const place = path.replace(/^store\/(?:postgres|redis|sqlite)\/.*/, "a database");
        places.set(name, (places.get(name) ?? new Set()).add(place));
      }
    const twice = [...places].filter(([, one]) => one.size > 1).map(([name, one]) => [name, ...one]);
    expect(twice.filter(([name]) => !Object.hasOwn(known, name!))).toEqual([]);
    expect(Object.keys(known).filter((name) => !twice.some(([one]) => one === name))).toEqual([]);
    expect(places.size).toBeGreaterThan(2_000);
  });

  test("what is exported is read by another file", () => {
    const texts = (folder: string) =>
      readdirSync(resolve(src, "..", folder), { recursive: true, encoding: "utf8" })
        .filter((path) => /\.(?:tsx?|sh)$/.test(path) && !path.includes("node_modules"))
        .map((path): [string, string] => [join(folder, path), readFileSync(resolve(src, "..", folder, path), "utf8")]);
    const all = ["src", "test", "deploy", "findings"].flatMap(texts);
    all.push(["build.ts", readFileSync(resolve(src, "../build.ts"), "utf8")]);
    const readers = new Map<string, number>();
    for (const [, text] of all)
      for (const word of new Set(text.match(/\b[A-Za-z_]\w*/g))) readers.set(word, (readers.get(word) ?? 0) + 1);
    const unread = all.flatMap(([path, text]) =>
      path.startsWith("src/")
        ? [...text.matchAll(/^export (?:abstract |async )?(?:class|const|function\*?|interface|let|type) (\w+)/gm)]
            .filter(([, name]) => readers.get(name!) === 1)
            .map(([, name]) => `${path}: ${name}`)
        : [],
    );
    expect(unread).toEqual([]);
  });
});
