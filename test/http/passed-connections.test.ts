import { expect, test } from "bun:test";
import { maxRepeated } from "../../src/lib/http/client.ts";
import { Troupe } from "../helpers/troupe.ts";

/** An upstream that notes which connection each request came by, and what it was. */
function noting() {
  const seen: { readonly port: number; readonly bytes: number }[] = [];
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    development: false,
    async fetch(request, own) {
      seen.push({ port: own.requestIP(request)!.port, bytes: (await request.arrayBuffer()).byteLength });
      return Response.json({ text: "said" });
    },
  });
  return { seen, url: `http://127.0.0.1:${server.port}/v1`, [Symbol.dispose]: () => void server.stop(true) };
}

const formOf = (bytes: number) => {
  const form = new FormData();
  form.append("file", new Blob([new Uint8Array(bytes)]), "a.wav");
  form.append("model", "openai/whisper-1");
  return form;
};

test("the raw API, forms and operations go by connections that were used before", async () => {
  using upstream = noting();
  await using troupe = await Troupe.start({
    providers: { openai: { baseUrl: upstream.url } },
    surfaces: ["gateway", "raw"],
  });
  const calls = [
    () => troupe.post("/gateway/providers/openai/chat/completions", { model: "m", messages: [] }),
    () => troupe.fetch("/gateway/providers/openai/files", { method: "POST", body: formOf(50_000) }),
    () => troupe.fetch("/gateway/providers/openai/models"),
    () => troupe.fetch("/gateway/v1/audio/transcriptions", { method: "POST", body: formOf(200_000) }),
    () => troupe.post("/gateway/v1/embeddings", { model: "openai/e", input: "Hi" }),
  ];
  for (let times = 0; times < 5; times += 1) for (const call of calls) expect((await call()).status).toBe(200);
  expect(upstream.seen).toHaveLength(25);
  expect(new Set(upstream.seen.map(({ port }) => port)).size).toBe(1);
  // The file is there whole, with the model's name as it is there.
  expect(upstream.seen.filter(({ bytes }) => bytes > 200_000)).toHaveLength(5);
});

test("a body too large to be sent twice streams, by a connection of its own", async () => {
  using upstream = noting();
  await using troupe = await Troupe.start({ providers: { openai: { baseUrl: upstream.url } }, surfaces: ["gateway"] });
  const send = () => troupe.fetch("/gateway/v1/audio/transcriptions", { method: "POST", body: formOf(maxRepeated) });
  for (let times = 0; times < 3; times += 1) expect((await send()).status).toBe(200);
  expect(new Set(upstream.seen.map(({ port }) => port)).size).toBe(3);
});

test.each([
  ["an answer", 200, '{"usage":{"prompt_tokens":3,"completion_tokens":5,"total_tokens":8},"model":"m"}'],
  ["an error", 404, '{"error": { "message":"é" } }'],
  ["nothing", 200, ""],
])("%s of the raw API that came with its head goes down with its length, in one piece", async (_, status, body) => {
  const length = Buffer.byteLength(body);
  using listener = Bun.listen({
    port: 0,
    hostname: "127.0.0.1",
    socket: {
      data(socket) {
        socket.write(
          `HTTP/1.1 ${status} Said\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n\r\n${body}`,
        );
      },
    },
  });
  await using troupe = await Troupe.start({
    providers: { openai: { baseUrl: `http://127.0.0.1:${listener.port}/v1` } },
    surfaces: ["gateway", "raw"],
  });
  const response = await troupe.post("/gateway/providers/openai/chat/completions", { model: "m", messages: [] });
  expect([response.status, response.headers.get("transfer-encoding")]).toEqual([status, null]);
  expect(response.headers.get("content-length")).toBe(String(length));
  expect(await response.text()).toBe(body);
});
