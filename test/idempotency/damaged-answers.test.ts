/** What is damaged on the disk is told as such, is never given for an answer, and blocks nothing. */
import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import fc from "fast-check";
import { Idempotency } from "../../src/idempotency/idempotency.ts";
import { systemClock } from "../../src/lib/time/clock.ts";
import { ApiError } from "../../src/protocols/errors.ts";
import { StorageError } from "../../src/store/contract/storage-error.ts";
import { pack, unpack, unpackText } from "../../src/store/packing.ts";
import { openStore } from "../../src/store/sqlite/store.ts";
import type { Answer, RecordedEvents } from "../../src/upstream/answer.ts";
import { runs } from "../helpers/long-form.ts";
import { keptEvent, ScriptedUpstream, settle } from "../helpers/scripted-upstream.ts";
import { TempFolder } from "../helpers/temp-folder.ts";

const rules = { retentionHours: 24, finishAfterDisconnect: true, recordBytes: 1 << 24 };
const claim = { scope: "s", requestId: "id", fingerprint: "f" };
const events = [...Array.from({ length: 200 }, (_, at) => `{"n":${at},"text":"${"x".repeat(1_000)}"}`), "[DONE]"];

async function textOf(answer: Answer<RecordedEvents>): Promise<string> {
  if (answer.kind === "whole") return Buffer.from(answer.body as string).toString();
  const read: string[] = [];
  for await (const batch of answer.events) read.push(...batch.map((event) => keptEvent(event).text));
  return read.join("\n");
}

const damages = [
  "update kept_calls set body = null",
  "update kept_calls set body = x''",
  "update kept_calls set body = x'00'",
  "update kept_calls set body = zeroblob(length(body))",
  "update kept_calls set body = substr(body, 1, length(body) - 1)",
  "update kept_calls set body = substr(body, 2)",
  "update kept_calls set body = (select data from kept_events limit 1) where events is not null",
  "update kept_calls set headers = null",
  "update kept_calls set headers = 'no'",
  `update kept_calls set headers = '{"a\\n":"b"}'`,
  "update kept_calls set status = null where events is null",
  "update kept_calls set status = 7 where events is null",
  "update kept_calls set events = events + 1 where events is not null",
  "update kept_calls set events = events - 1 where events is not null",
  "update kept_calls set body_from = body_from + 1 where events is not null",
  "update kept_events set data = zeroblob(length(data))",
  "update kept_events set data = substr(data, 1, length(data) / 2)",
  "delete from kept_events where first_id = (select max(first_id) from kept_events)",
  "delete from kept_events where first_id = (select min(first_id) from kept_events)",
];

test.each(damages)("%s", async (damage) => {
  for (const kind of ["whole", "stream"] as const) {
    using folder = new TempFolder();
    const store = openStore(folder.path);
    const upstream = new ScriptedUpstream();
    const idempotency = new Idempotency(store, systemClock, () => rules);
    const ask = () => idempotency.run(claim, new AbortController().signal, upstream.produce);
    const answer = async () => {
      const asked = ask();
      await settle();
      if (kind === "whole") upstream.last.whole("the answer");
      else {
        const call = upstream.last.stream();
        for (const event of events) call.push(event);
        call.end("finished");
      }
      return textOf((await asked).answer);
    };
    const first = await answer();
    using database = new Database(folder.file("troupe.db"));
    if (database.run(damage).changes === 0) {
      await idempotency.close();
      await store.close();
      continue;
    }
    const fails = ask().then(({ answer: kept }) => textOf(kept));
    await expect(fails).rejects.toBeInstanceOf(ApiError);
    await expect(fails).rejects.toMatchObject({ status: 503, code: "storage_unavailable" });
    // The id is free.
    const calls = upstream.calls.length;
    expect(await answer()).toBe(first);
    expect(upstream.calls.length).toBe(calls + 1);
    expect(await textOf((await ask()).answer)).toBe(first);
    expect(upstream.calls.length).toBe(calls + 1);
    await idempotency.close();
    await store.close();
  }
});

test("a changed byte, a cut or an added one: an error of the store, and never another text", () => {
  const text = fc.oneof(fc.string({ maxLength: 300 }), fc.uint8Array({ maxLength: 2_000 }));
  fc.assert(
    fc.property(text, fc.nat(), fc.integer({ min: 1, max: 255 }), fc.constantFrom("flip", "cut", "add"), (...given) => {
      const [content, at, bits, how] = given;
      const packed = pack(content);
      const original = unpack(packed);
      const place = at % packed.length;
      const spoilt =
        how === "cut"
          ? packed.slice(0, place)
          : how === "add"
            ? Buffer.concat([packed, Buffer.from([bits])])
            : packed.slice();
      if (how === "flip") spoilt[place]! ^= bits;
      try {
        // A seal that is no seal any more is one of nobody's: then the text is whole.
        expect(unpack(spoilt)).toEqual(original);
      } catch (error) {
        expect(error).toBeInstanceOf(StorageError);
      }
    }),
    { numRuns: runs(1_000) },
  );
});

test("what an older version kept is read, and it reads what this one keeps", () => {
  expect(unpackText(Bun.zstdCompressSync("hello", { level: 1 }))).toBe("hello");
  expect(new TextDecoder().decode(Bun.zstdDecompressSync(pack("hello")))).toBe("hello");
});
