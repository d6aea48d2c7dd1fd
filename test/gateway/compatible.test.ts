/** Every upstream that speaks chat completions, driven by the official client through the gateway to one that is strict. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type OpenAI from "openai";
import { APIError } from "openai";
import type { ChatCompletionMessageParam } from "openai/resources/chat/completions";
import { providers } from "../../src/providers/registry.ts";
import { dataIn } from "../helpers/chat-stream.ts";
import { answeredCases, exampleResponse } from "../helpers/fixtures.ts";
import { Troupe } from "../helpers/troupe.ts";
import { sseResponse, UpstreamServer } from "../helpers/upstream-server.ts";
import {
  accountOptions,
  type Body,
  basePath,
  simpleAnswer,
  strictCompatible,
} from "../helpers/upstreams/compatible.ts";

const families = providers.flatMap((one) => (one.kind === "remote" && one.format === "chat" ? one.name : []));
const models: Readonly<Record<string, string>> = { openai: "gpt-5.4", xai: "grok-4.3", groq: "openai/gpt-oss-120b" };
/** Where earlier thoughts go back to those that take them. */
const thoughtFields: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    ["xai", "deepseek", "fireworks", "moonshot", "zai", "llamacpp", "volcengine", "sglang", "docker", "litellm"].map(
      (name) => [name, "reasoning_content"],
    ),
  ),
  ...Object.fromEntries(
    ["groq", "openrouter", "cerebras", "ollama", "vllm", "ollama-cloud", "vercel"].map((name) => [name, "reasoning"]),
  ),
};
/** Those whose tool results may hold images; elsewhere the images follow in a user's message. */
const takesToolImages = new Set(["openrouter"]);
/** The turns that must stand between a tool's result and a user's message. */
const turnsAfterTool: Readonly<Record<string, readonly string[]>> = { mistral: ["assistant"] };
const weather = {
  type: "function" as const,
  function: { name: "weather", parameters: { type: "object", properties: { city: { type: "string" } } } },
};
const user: ChatCompletionMessageParam = { role: "user", content: "Hi" };
const longId = `toolu_${"x".repeat(44)}`;

for (const name of families) {
  describe(name, () => {
    let troupe: Troupe;
    let upstream: UpstreamServer;
    let media: UpstreamServer;
    let client: OpenAI;
    let next: (body: Body) => Response = () => simpleAnswer();
    const model = `${name}/${models[name] ?? "some-model"}`;

    beforeAll(async () => {
      upstream = new UpstreamServer(strictCompatible(name, `key-of-${name}`, (body) => next(body)));
      media = new UpstreamServer(
        () =>
          new Response(new Uint8Array([137, 80, 78, 71, 13, 10, 26, 10]), { headers: { "content-type": "image/png" } }),
      );
      troupe = await Troupe.start({
        providers: { [name]: { baseUrl: upstream.url + basePath(name), options: accountOptions[name] ?? {} } },
      });
      client = troupe.client("gateway");
    });
    afterAll(async () => {
      await troupe[Symbol.asyncDispose]();
      upstream[Symbol.dispose]();
      media[Symbol.dispose]();
    });

    const ask = (messages: ChatCompletionMessageParam[], more: object = {}) =>
      client.chat.completions.create({ model, messages, ...more } as OpenAI.ChatCompletionCreateParamsNonStreaming);
    const sent = () => upstream.last.json as Body;
    const sentMessages = () => sent()["messages"] as Body[];

    test("takes a request with all that clients like to send", async () => {
      next = () => simpleAnswer();
      const completion = await ask(
        [
          { role: "developer", content: "Be kind." },
          {
            role: "system",
            content: [
              { type: "text", text: "Be" },
              { type: "text", text: "brief." },
            ],
          },
          { role: "user", content: "Hi", name: "ann" },
          {
            role: "assistant",
            content: null,
            refusal: "No.",
            audio: null,
            annotations: [],
            reasoning_content: "Hm.",
            thinking_blocks: [{ type: "thinking", thinking: "Hm.", signature: "c2ln" }],
          } as never,
          user,
        ],
        {
          temperature: 0.5,
          top_p: 0.9,
          max_tokens: 50,
          n: 1,
          seed: 7,
          presence_penalty: 0,
          frequency_penalty: 0,
          logit_bias: {},
          logprobs: false,
          user: "u",
          metadata: { a: "b" },
          store: false,
          service_tier: "auto",
          parallel_tool_calls: true,
          safety_identifier: "s",
          prompt_cache_key: "k",
          modalities: ["text"],
          response_format: { type: "json_object" },
          extra_body: { include_thoughts: true },
          tools: [weather],
          google: { thinking_budget: 5 },
        },
      );
      expect(completion.id).toStartWith("chatcmpl-");
      expect([completion.object, completion.model, completion.choices[0]!.finish_reason]).toEqual([
        "chat.completion",
        model,
        "stop",
      ]);
      expect(completion.choices[0]!.message).toEqual({ role: "assistant", content: "Hello", refusal: null });
      expect(completion.usage).toEqual({ prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 });
      expect(sent()["model"]).toBe(model.slice(name.length + 1));
      for (const foreign of ["extra_body", "google", "include_thoughts"]) expect(sent()).not.toHaveProperty(foreign);
    });

    for (const [how, keep] of [
      ["echoes the message", (message: Body) => message],
      ["keeps the standard fields only", ({ role, content, tool_calls }: Body) => ({ role, content, tool_calls })],
    ] as const) {
      test(`takes a tool turn from a client that ${how}, with an image as the result`, async () => {
        const call = { id: longId, type: "function", function: { name: "weather", arguments: '{"city":"Rome"}' } };
        next = () => simpleAnswer({ content: "", reasoning_content: "Ask.", tool_calls: [call] });
        const { message, finish_reason } = (await ask([user], { tools: [weather] })).choices[0]!;
        expect([finish_reason, message.content, message.tool_calls]).toEqual(["tool_calls", null, [call] as never]);
        next = () => simpleAnswer();
        const echoed = keep(message as unknown as Body) as unknown as ChatCompletionMessageParam;
        const result = [
          { type: "text", text: "Rain" },
          { type: "image_url", image_url: { url: `${media.url}/a.png` } },
        ];
        const second = { role: "tool", tool_call_id: longId, content: takesToolImages.has(name) ? "Rain" : result };
        await ask([user, echoed, second as unknown as ChatCompletionMessageParam], { tools: [weather] });
        const roles = sentMessages().map(({ role }) => role);
        const images = takesToolImages.has(name) ? [] : [...(turnsAfterTool[name] ?? []), "user"];
        expect(roles).toEqual(["user", "assistant", "tool", ...images]);
        const [asked] = sentMessages()[1]!["tool_calls"] as [Body];
        expect(sentMessages()[2]!["tool_call_id"]).toBe(asked["id"] as string);
        const thoughts = Object.entries(sentMessages()[1]!).filter(([, value]) => value === "Ask.");
        expect(thoughts.map(([field]) => field)).toEqual([thoughtFields[name] ?? []].flat());
      });
    }

    test("takes images by address and as data", async () => {
      next = () => simpleAnswer();
      if (["groq", "deepseek", "zai", "cerebras"].includes(name)) return; // the models of this stand-in read text alone
      const data = "data:image/png;base64,iVBORw0KGgo=";
      await ask([
        {
          role: "user",
          content: [
            { type: "image_url", image_url: { url: `${media.url}/a.png` } },
            { type: "image_url", image_url: { url: data } },
          ],
        },
      ]);
      const urls = (sentMessages()[0]!["content"] as { image_url: { url: string } }[]).map(
        ({ image_url }) => image_url.url,
      );
      expect(urls).toEqual([
        ["moonshot", "ollama", "lmstudio", "ollama-cloud"].includes(name) ? data : `${media.url}/a.png`,
        data,
      ]);
    });

    test("answers errors byte for byte", async () => {
      const bodies = [
        ['{"error":{"message":"Slow down.","type":"requests","param":null,"code":"rate_limit_exceeded"}}\n', 429],
        ['{ "object":"error", "message":"flat" }', 400],
        ['{"detail":[{"loc":["body","x"],"msg":"no","type":"extra_forbidden"}]}', 422],
        ['{"error":"a text"}', 402],
        ['[{"error":{"code":404}}]', 404],
        ["<html>bad gateway</html>", 502],
        ["", 503],
      ] as const;
      for (const stream of [false, true]) {
        for (const [text, status] of bodies) {
          const type = text.startsWith("<") ? "text/html" : "application/json";
          next = () =>
            new Response(text, { status, headers: { "content-type": type, "retry-after": "7", "set-cookie": "a=b" } });
          const answer = await troupe.post("/gateway/v1/chat/completions", { model, messages: [user], stream });
          expect([answer.status, await answer.text()]).toEqual([status, text]);
          expect(answer.headers.get("content-type")).toBe(type);
          expect([answer.headers.get("retry-after"), answer.headers.get("set-cookie")]).toEqual(["7", null]);
          expect(answer.headers.get("x-troupe-error-source")).toBe("upstream");
        }
      }
    });

    for (const { name: example, path, request, expected } of answeredCases(name, "sse")) {
      const answered = expected.completion;
      if (answered === undefined) {
        test(`passes on the error of ${example}`, async () => {
          next = () => exampleResponse(path);
          const outcome = await readStream().catch((error) => error);
          expect(outcome).toBeInstanceOf(APIError);
        });
        continue;
      }
      test(`streams ${example}`, async () => {
        next = () => exampleResponse(path);
        const { text, thoughts, finish, usage, calls } = await readStream(
          example.startsWith("repetition") ? (request["messages"] as ChatCompletionMessageParam[]) : undefined,
        );
        const { message, finish_reason } = answered.choices[0]!;
        expect(text).toBe(message.content ?? "");
        expect(thoughts).toBe(message.reasoning_content ?? "");
        expect(finish).toBe(finish_reason);
        expect(calls).toEqual((message.tool_calls ?? []).map(({ id }) => id));
        expect(usage as unknown).toEqual(answered.usage ?? { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 });
      });
    }

    test("an error before the first fragment is an error with a status, after it one in the stream", async () => {
      const error = '{"error":{"message":"Overloaded.","type":"overloaded_error","code":"overloaded"}}';
      next = () => sseResponse([`data: ${error}\n\n`]);
      const early = await troupe.post("/gateway/v1/chat/completions", { model, messages: [user], stream: true });
      expect([early.status, await early.text()]).toEqual([503, error]);
      const begun = 'data: {"choices":[{"index":0,"delta":{"content":"Rome is it"}}]}\n\n';
      next = () => sseResponse([begun, `data: ${error}\n\n`]);
      const late = await troupe.post("/gateway/v1/chat/completions", { model, messages: [user], stream: true });
      const data = dataIn(await late.text());
      expect(late.status).toBe(200);
      expect(JSON.parse(data[0]!).choices[0].delta).toEqual({ role: "assistant", content: "Rome is it" });
      expect(JSON.parse(data.at(-2)!)).toEqual({
        error: { message: "Overloaded.", type: "overloaded_error", param: "", code: "overloaded" },
        id: expect.any(String),
        object: "chat.completion.chunk",
        created: expect.any(Number),
        model,
      });
      expect(data.at(-1)).toBe("[DONE]");
    });

    async function readStream(messages = [user]) {
      const stream = await client.chat.completions.create({
        model,
        messages,
        stream: true,
        stream_options: { include_usage: true },
      });
      const read = {
        text: "",
        thoughts: "",
        finish: "",
        usage: undefined as OpenAI.CompletionUsage | undefined,
        calls: [] as string[],
      };
      let roles = 0;
      for await (const { choices, usage } of stream) {
        if (usage != null) read.usage = usage;
        const choice = choices.find(({ index }) => index === 0);
        if (choice === undefined) continue;
        const delta = choice.delta as typeof choice.delta & { reasoning_content?: string };
        roles += delta.role === undefined ? 0 : 1;
        read.text += delta.content ?? "";
        read.thoughts += delta.reasoning_content ?? "";
        for (const call of delta.tool_calls ?? []) if (call.id !== undefined) read.calls.push(call.id);
        read.finish = choice.finish_reason ?? read.finish;
      }
      expect(roles).toBe(1);
      return read;
    }
  });
}
