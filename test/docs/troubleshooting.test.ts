import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { chmodSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { underWay } from "../../src/store/contract/storage-error.ts";
import { Console } from "../cli/console.ts";
import { runScript } from "../helpers/child-process.ts";
import { hasPostgres, PostgresServer } from "../helpers/postgres.ts";
import { TempFolder } from "../helpers/temp-folder.ts";

const page = readFileSync("docs/troubleshooting.md", "utf8");
const errors = readFileSync("docs/errors.md", "utf8");
const rows = page.slice(page.indexOf("| the log says |")).split("\n\n")[0]!.split("\n").slice(2);
/** What the page says that the log says. */
const quoted = rows.map((row) => /^\| `([^`]+)` \|/.exec(row)?.[1] ?? row);

/** A text of the page, in which "…" is whatever it may be. */
const patternOf = (text: string) =>
  new RegExp(
    text
      .split("…")
      .map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&"))
      .join(".*"),
  );

type Folder = { readonly folder: TempFolder; readonly data: string; readonly database: string };

/** How each of them comes about. @returns what the start wrote */
const starts: Readonly<Record<string, (at: Folder) => Promise<string>>> = {
  "troupe.yaml:4:3: …": async ({ folder }) => {
    writeFileSync(folder.file("troupe.yaml"), "\n\nlog:\n  levl: info\n");
    return serve(folder, "");
  },
  "Can't listen at …: Failed to start server. Is port … in use?": async ({ folder }) => {
    using other = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
    return await serve(folder, `--port ${other.port}`);
  },
  "Can't listen at …: permission denied …:80": async ({ folder }) => {
    chmodSync(folder.path, 0o777);
    const drop = process.getuid?.() === 0 ? "process.setgid(65534); process.setuid(65534);" : "";
    const { errors: said } = await runScript(
      `process.chdir(${JSON.stringify(folder.path)});
       process.argv.splice(0, process.argv.length, "bun", "troupe", "--port", "80");
       await import(SRC + "/main.ts");`,
      drop,
    );
    return said;
  },
  "Can't listen at …: EADDRNOTAVAIL: address not available": async ({ folder }) => {
    const said = await serve(folder, "--host 203.0.113.7 --port 8099");
    expect(said).toContain("Can't listen at 203.0.113.7:8099: ");
    return said;
  },
  "Can't listen at …: ENOENT: no such file or directory, listen '…'": async ({ folder }) => {
    writeFileSync(folder.file("troupe.yaml"), `listen: unix:${folder.file("no/socket")}\n`);
    return serve(folder, "");
  },
  "The data folder … can't be used (…)": async ({ folder, data }) => {
    writeFileSync(data, "");
    return serve(folder);
  },
  "… was written by a newer Troupe": async (at) => {
    await made(at);
    edit(at.database, "pragma user_version = 99");
    return serve(at.folder);
  },
  "… has schema … of another build of Troupe": async (at) => {
    await made(at);
    edit(at.database, "update schema_texts set hash = 'another'");
    return serve(at.folder);
  },
  "A move to … is under way, or was broken off": async (at) => {
    if (!hasPostgres) return underWay("127.0.0.1/troupe").message;
    await using server = await PostgresServer.start();
    const url = await server.createDatabase();
    await server.ask(url, "create schema troupe_moving");
    writeFileSync(at.folder.file("troupe.yaml"), `store: ${url}\n`);
    return await serve(at.folder);
  },
  "… is a database of another program": async (at) => {
    mkdirSync(at.data);
    edit(at.database, "create table theirs (a)");
    return serve(at.folder);
  },
  "The database … is missing, but … shows that there were keys": async (at) => {
    await made(at);
    rmSync(at.database);
    const missing = await serve(at.folder);
    writeFileSync(at.database, "");
    expect(await serve(at.folder)).toMatch(/ is empty, but .* shows that there were keys/);
    return missing;
  },
  "The database … is damaged": async (at) => {
    await made(at);
    edit(at.database, "drop table turns");
    return serve(at.folder);
  },
  "The database … can't be reached (…)": async ({ folder }) => {
    writeFileSync(folder.file("troupe.yaml"), "store: postgres://127.0.0.1:1/troupe\n");
    return serve(folder);
  },
  "The database … failed (SQLITE_…)": async (at) => {
    mkdirSync(at.data);
    writeFileSync(at.database, "not a database ".repeat(99));
    return serve(at.folder);
  },
};

async function serve(folder: TempFolder, flags = "--port 0"): Promise<string> {
  const { code, err } = await new Console(folder.path).run(`serve ${flags}`);
  expect(code).toBe(1);
  return err;
}

async function made({ folder }: Folder): Promise<void> {
  expect((await new Console(folder.path).run("keys create a")).code).toBe(0);
}

function edit(path: string, sql: string): void {
  using database = new Database(path, { create: true });
  database.run(sql);
}

/** Where unprivileged processes may have any port, none is denied. */
const lowestPort = Number(readFileSync("/proc/sys/net/ipv4/ip_unprivileged_port_start", "utf8"));

test("every text of the log on the page is tried, and no other", () => {
  expect(quoted).toEqual(Object.keys(starts));
});

for (const [text, start] of Object.entries(starts)) {
  test.skipIf(text.includes("permission") && lowestPort <= 80)(`the log says ${text}`, async () => {
    using folder = new TempFolder();
    const data = folder.file("data");
    expect(await start({ folder, data, database: join(data, "troupe.db") })).toMatch(patternOf(text));
  });
}

test("every code that callers see stands on the page of errors, with its status", () => {
  const seen = [...page.matchAll(/^\| (\d{3}) ((?:`\w+`(?:, )?)+) \|/gm)];
  expect(seen.length).toBeGreaterThan(12);
  for (const [, status, codes] of seen) {
    for (const [code] of codes!.matchAll(/`\w+`/g)) {
      const line = errors.split("\n").find((one) => one.includes(`| ${code} |`) && one.includes(status!));
      expect([status, code, line !== undefined]).toEqual([status, code, true]);
    }
  }
});
