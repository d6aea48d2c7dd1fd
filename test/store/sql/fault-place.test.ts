/** Faults of stored data name their table and row for the operator, and nothing of it for clients. */
import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { located, rowWords, StorageError } from "../../../src/store/contract/storage-error.ts";
import { faultPlace } from "../../../src/store/sql/fault-place.ts";
import { insertion, tableOf } from "../../../src/store/sql/tables.ts";
import { observe } from "../../helpers/observed-troupe.ts";
import { UpstreamServer } from "../../helpers/upstream-server.ts";

test.each<[string, string, readonly string[], string | undefined]>([
  ["an insert", insertion(tableOf("audit")), ["id-1", "me"], 'the row "id-1" of the table audit'],
  [
    "an insert into a table with two names",
    insertion(tableOf("budgets")),
    ["all", "day"],
    'the row "all", "day" of the table budgets',
  ],
  [
    "an update",
    "update troupe.turns as t set metadata = $4::text where t.id = $1::text and t.key_holder = $2::text",
    ["a\0", "b"],
    'the row "a\\u0000" of the table turns',
  ],
  ["a list", "select id from troupe.turns where key_holder = $1::text", ["b"], "the table turns"],
  [
    "a row that is selected for another table",
    "with a as (select 1 from troupe.conversations where id = $2::text) insert into troupe.turns (id, parent) select $1, $2 from a",
    ["b", "c"],
    "the table turns",
  ],
  ["a function", "select troupe.reserve_calls($1::text::jsonb)", ["{}"], "the statement of reserve_calls"],
  ["no table", "select 1", [], undefined],
])("%s", (_, text, parameters, place) => {
  expect(faultPlace(text, parameters)).toBe(place!);
});

test("the innermost place stays, and an outage has none", () => {
  const fault = new StorageError("unusable", "db", "It failed.");
  const once = located(fault, rowWords("turns", ["a"]));
  expect((once as Error).message).toBe('It failed. At fault is the row "a" of the table turns.');
  expect(located(once, "elsewhere")).toBe(once);
  const outage = new StorageError("away", "db", "It is away.");
  expect(located(outage, "elsewhere")).toBe(outage);
});

const answer = {
  ...{ id: "1", object: "chat.completion", created: 1, model: "x" },
  choices: [{ index: 0, message: { role: "assistant", content: "Hi" }, finish_reason: "stop" }],
};

test("a damaged row is a 503 without a word of it, and the log names it", async () => {
  using upstream = new UpstreamServer(() => Response.json(answer));
  let id = "";
  let shown = "";
  const { lines } = await observe({ providers: { groq: { baseUrl: upstream.url } } }, async (troupe) => {
    const path = "/gateway/v1/chat/completions";
    const asked = { model: "groq/x", messages: [{ role: "user", content: "Hello" }], store: true };
    const headers = { "service-request-id": "one" };
    ({ id } = (await (await troupe.post(path, asked, { headers })).json()) as { id: string });
    using database = new Database(`${troupe.data}/troupe.db`);
    expect(database.run("update turns set completion = x'00'").changes).toBe(1);
    expect(database.run("update kept_calls set body = x'00'").changes).toBe(1);
    const failed = [
      await troupe.fetch(`${path}/${id}`),
      await troupe.post(path, { ...asked, previous_response_id: id }),
      await troupe.post(path, asked, { headers }),
    ];
    for (const response of failed) {
      expect(response.status).toBe(503);
      shown += await response.text();
    }
  });
  expect(shown).not.toMatch(/turns|kept_calls|row|table/);
  const named = (place: string) => lines.filter((line) => line.includes(JSON.stringify(place).slice(1, -1)));
  expect(named(`At fault is the row "${id}" of the table turns.`).length).toBeGreaterThanOrEqual(2);
  expect(named("At fault is the row 1 of the table kept_calls.").length).toBeGreaterThanOrEqual(1);
});
