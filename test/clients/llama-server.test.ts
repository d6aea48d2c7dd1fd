/** llama.cpp's own server as the upstream, with a model that says what it is to say, behind the official clients of every format. */
import { afterAll, beforeAll, expect } from "bun:test";
import { join } from "node:path";
import { type Format, formats, readers } from "../helpers/answers-by-sdk.ts";
import { freePort } from "../helpers/free-port.ts";
import { isLongForm, longTest } from "../helpers/long-form.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";
import { describePython } from "./describe-client.ts";
import { python } from "./installed.ts";

const script = join(import.meta.dir, "python/llama_server.py");
const model = "llamacpp/chain";
const text = { hasTool: false };

/** Starts it, and waits until it answers. */
async function startServer(folder: string, port: number) {
  const server = Bun.spawn([python!, script, folder, String(port)], {
    stdin: "pipe",
    stdout: "pipe",
    stderr: "ignore",
  });
  const decoder = new TextDecoder();
  let said = "";
  for await (const piece of server.stdout) {
    said += decoder.decode(piece, { stream: true });
    if (said.includes("up\n")) return server;
  }
  throw new Error(`llama.cpp's server did not start: ${said}`);
}

describePython("xllamacpp", () => {
  let folder: TempFolder;
  let port: number;
  let server: Awaited<ReturnType<typeof startServer>>;
  /** As it is set up, and with every call translated to chat completions. */
  let troupes: Readonly<Record<"natively" | "translated", Troupe>>;

  beforeAll(async () => {
    if (!isLongForm) return;
    folder = new TempFolder();
    port = freePort();
    server = await startServer(folder.path, port);
    const providers = { llamacpp: { baseUrl: `http://127.0.0.1:${port}/v1` } };
    troupes = {
      natively: await Troupe.start({ providers, nativeEndpoints: true }),
      translated: await Troupe.start({ providers }),
    };
  });
  afterAll(async () => {
    if (!isLongForm) return;
    for (const troupe of Object.values(troupes)) await troupe[Symbol.asyncDispose]();
    server.kill("SIGKILL");
    await server.exited;
    folder[Symbol.dispose]();
  });

  const ends: Readonly<Record<Format, readonly [text: string, call: string]>> = {
    chat: ["stop", "tool_calls"],
    responses: ["completed", "completed"],
    messages: ["end_turn", "tool_use"],
    gemini: ["STOP", "STOP"],
  };
  const roads = ["natively", "translated"] as const;
  const cases = roads.flatMap((road) =>
    formats.flatMap((format) => [true, false].map((stream) => [road, format, stream] as const)),
  );

  longTest.each(cases)("%s, %s: a text, and a call (streamed: %p)", async (road, format, stream) => {
    const read = readers[format];
    expect(await read(troupes[road], model, stream, text)).toEqual({ text: "ABCD", calls: [], end: ends[format][0] });
    const { calls, end } = await read(troupes[road], model, stream);
    const [[name, written]] = calls as [[string, string]];
    expect([name, JSON.parse(written), end]).toEqual(["weather", { city: "Oslo" }, ends[format][1]]);
  });

  /** A stream that goes on for ever, unless somebody ends it; the server has one place. */
  async function endless(signal?: AbortSignal) {
    const body = { model, messages: [{ role: "user", content: "loop" }], stream: true };
    const response = await fetch(`${troupes.natively.url}/gateway/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${troupes.natively.key}`, "content-type": "application/json" },
      body: JSON.stringify(body),
      signal: signal ?? null,
    });
    const reader = response.body!.getReader();
    expect(new TextDecoder().decode((await reader.read()).value)).toContain("data: ");
    return reader;
  }

  longTest.each(roads)("%s, a prefill comes back once, in chat and Messages", async (road) => {
    const { url, key } = troupes[road];
    const messages = [
      { role: "user", content: "hi" },
      { role: "assistant", content: "AB" },
    ];
    for (const path of ["chat/completions", "messages"]) {
      for (const stream of [false, true]) {
        const response = await fetch(`${url}/gateway/v1/${path}`, {
          method: "POST",
          headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
          body: JSON.stringify({ model, max_tokens: 9, messages, stream }),
        });
        const said = [...(await response.text()).matchAll(/"(?:content|text)":"([^"]*)"/g)].map(([, word]) => word);
        expect(said.join("")).toBe("CD");
      }
    }
  });

  longTest("who leaves frees the server's place", async () => {
    const leaving = new AbortController();
    const reader = await endless(leaving.signal);
    leaving.abort();
    await reader.read().catch(() => {});
    expect((await readers.chat(troupes.natively, model, false, text)).text).toBe("ABCD");
  });

  longTest.each(formats)("too long a prompt is the caller's mistake, in %s", async (format) => {
    const asked = readers[format](troupes.translated, model, true, { ...text, prompt: "x".repeat(3000) });
    const error = await asked.catch((thrown: unknown) => thrown as { status: number; message: string });
    expect(error).toMatchObject({
      status: 400,
      message: expect.stringContaining("exceeds the available context size"),
    });
  });

  longTest("a server that is killed breaks the stream, and is asked again once it is back", async () => {
    const reader = await endless();
    server.kill("SIGKILL");
    let rest = "";
    const decoder = new TextDecoder();
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        rest += decoder.decode(value, { stream: true });
      }
    } catch {
      // A broken stream ends with its connection.
    }
    expect(rest).toContain('"error":');
    server = await startServer(folder.path, port);
    expect((await readers.chat(troupes.translated, model, true, text)).text).toBe("ABCD");
  });
});
