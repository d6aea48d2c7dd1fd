/**
 * Streams that an older version kept, under the schema's version 4, given over HTTP byte for byte as that version gave them:
 * test/fixtures/kept-streams has its database, and what a client of it read.
 */
import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { copyFileSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { databaseName } from "../../src/store/sqlite/store.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";

const kept = resolve(import.meta.dir, "../fixtures/kept-streams");
/** Of 225,277 bytes, most of them in rows that were written while it ran. */
const longHash = "bc4219177dfe8d6f339e0895893c956cba982088a6420a9d6494136ad2f68366";

test("a replay after the migration has the same bytes, and goes on behind any event", async () => {
  using folder = new TempFolder();
  copyFileSync(`${kept}/v4.db`, folder.file(databaseName));
  await using troupe = await Troupe.start({
    data: folder.path,
    providers: { openai: { baseUrl: "http://127.0.0.1:1" } },
  });
  const key = await troupe.server.services.keys.show(troupe.key);
  using database = new Database(folder.file(databaseName));
  database.run("update kept_calls set scope = ?", [`${key.id} gateway`]);
  const ask = async (name: string, headers: Record<string, string> = {}) => {
    const response = await troupe.post(
      "/gateway/v1/chat/completions",
      {
        model: "openai/m",
        stream: true,
        stream_options: { include_usage: true },
        messages: [{ role: "user", content: name }],
      },
      { headers: { "service-request-id": name, ...headers } },
    );
    expect([response.status, response.headers.get("idempotent-replayed")]).toEqual([200, "true"]);
    return response.text();
  };
  expect(await ask("short")).toBe(readFileSync(`${kept}/short.sse`, "utf8"));
  const long = await ask("long");
  expect(Bun.SHA256.hash(long, "hex")).toBe(longHash);
  const events = long.split(/(?<=\n\n)/);
  for (const at of [0, 400, 901]) {
    const id = /^id: (\S+)/.exec(events[at]!)![1]!;
    expect(await ask("long", { "last-event-id": id })).toBe(events.slice(at + 1).join(""));
  }
});
