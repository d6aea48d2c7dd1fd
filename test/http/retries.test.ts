/** The official client, its retries, and a network that breaks: one upstream call, one bill, the whole answer. */
import { expect, test } from "bun:test";
import OpenAI from "openai";
import { FaultyProxy } from "../helpers/faulty-proxy.ts";
import { Random } from "../helpers/random.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, sseResponse, UpstreamServer } from "../helpers/upstream-server.ts";

type Asked = { readonly messages: [{ content: string }]; readonly stream?: boolean };

const words = Array.from({ length: 40 }, (_, at) => `word ${at}, `);

test("resets, stalls and cuts anywhere", async () => {
  const random = Random.fromEnvironment("RETRY_SEED");
  const calls = new Map<string, number>();
  using upstream = new UpstreamServer(({ json }) => {
    const { messages, stream } = json as Asked;
    const said = messages[0].content;
    calls.set(said, (calls.get(said) ?? 0) + 1);
    const content = (text: string) => ({ index: 0, delta: { content: text }, finish_reason: null });
    if (stream !== true) {
      const message = { role: "assistant", content: words.join("") };
      return jsonResponse({ choices: [{ index: 0, message, finish_reason: "stop" }] });
    }
    const end = { index: 0, delta: {}, finish_reason: "stop" };
    const events = [...words.map(content), end].map((choice) => `data: ${JSON.stringify({ choices: [choice] })}\n\n`);
    return sseResponse([...events, "data: [DONE]\n\n"]);
  });
  await using troupe = await Troupe.start({ providers: { openai: { baseUrl: upstream.url } } });
  using proxy = new FaultyProxy(new URL(troupe.url), () => {
    const afterBytes = random.below(random.chance(50) ? 600 : 9000);
    const kind = random.pick(["none", "none", "none", "reset", "reset", "stall"] as const);
    // The client waits for a stalled head, not for a stalled body.
    return kind === "stall" ? { kind, afterBytes: 0 } : { kind, afterBytes };
  });
  const client = new OpenAI({
    baseURL: `${proxy.url}/gateway/v1`,
    apiKey: troupe.key,
    maxRetries: 1,
    timeout: 400,
    fetchOptions: { keepalive: false },
  });
  const ask = async (id: string, stream: boolean): Promise<string> => {
    const body = { model: "openai/x", messages: [{ role: "user" as const, content: id }] };
    const options = { headers: { "service-request-id": id } };
    if (!stream) return (await client.chat.completions.create(body, options)).choices[0]!.message.content ?? "";
    let text = "";
    for await (const chunk of await client.chat.completions.create({ ...body, stream: true }, options)) {
      text += chunk.choices[0]?.delta.content ?? "";
    }
    return text;
  };
  /** What an application does about a stream that broke: it asks again. */
  const persist = async (id: string, stream: boolean): Promise<string> => {
    for (;;) {
      try {
        return await ask(id, stream);
      } catch (error) {
        if (error instanceof OpenAI.APIError && error.status !== undefined) throw error;
      }
    }
  };
  try {
    const ids = Array.from({ length: 30 }, (_, at) => `request-${at}`);
    const texts = await Promise.all(ids.map((id, at) => persist(id, at % 3 !== 0)));
    for (const [at, id] of ids.entries()) expect([id, texts[at], calls.get(id)]).toEqual([id, words.join(""), 1]);
    expect(proxy.broken).toBeGreaterThan(5);
  } catch (error) {
    console.error(`retries: RETRY_SEED=${random.seed} fails`);
    throw error;
  }
});
