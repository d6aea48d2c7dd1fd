/** The responses mode of xAI and OpenAI, driven by the official client through the gateway to an upstream that is strict. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import OpenAI from "openai";
import type { ChatCompletionMessageParam } from "openai/resources/chat/completions";
import { exampleResponse } from "../helpers/fixtures.ts";
import { HeldStream } from "../helpers/held-stream.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, sseResponse, UpstreamServer } from "../helpers/upstream-server.ts";
import { strictResponses } from "../helpers/upstreams/responses.ts";

type Body = Record<string, unknown>;
type Item = Record<string, unknown>;

const weather = {
  type: "function" as const,
  function: { name: "weather", parameters: { type: "object", properties: { city: { type: "string" } } } },
};

const families = [
  { family: "xai" as const, model: "xai/grok-4.3", format: "xai-responses" },
  { family: "openai" as const, model: "openai/gpt-5.4", format: "openai-responses" },
];

for (const { family, model, format } of families) {
  describe(format, () => {
    let troupe: Troupe;
    let upstream: UpstreamServer;
    let client: OpenAI;
    /** What the upstream answers next. */
    let next: (body: Body) => Response = () => exampleResponse(`${format}/plain`);

    beforeAll(async () => {
      upstream = new UpstreamServer(strictResponses(family, `key-of-${family}`, (body) => next(body)));
      troupe = await Troupe.start({ providers: { [family]: { baseUrl: `${upstream.url}/v1` } } });
      client = troupe.client("gateway");
    });
    afterAll(async () => {
      await troupe[Symbol.asyncDispose]();
      upstream[Symbol.dispose]();
    });

    const mode = { use_responses_api: true };
    /** What is expected here, of what is expected of each. */
    const of = <T>(expected: Record<typeof family, T>): T => expected[family];
    const answerWith = (example: string) => {
      next = () => exampleResponse(`${format}/${example}`);
    };
    const items = () => (upstream.last.json as Body)["input"] as Item[];
    const ask = (messages: ChatCompletionMessageParam[], more: object = {}) =>
      client.chat.completions.create({
        model,
        messages,
        ...mode,
        ...more,
      } as OpenAI.ChatCompletionCreateParamsNonStreaming);
    const user: ChatCompletionMessageParam = { role: "user", content: "Hi" };

    test("answers a plain request", async () => {
      answerWith("plain");
      const completion = await ask([user]);
      expect(upstream.last.path).toBe("/v1/responses");
      expect(completion.id).toStartWith("chatcmpl-");
      expect([completion.object, completion.model, completion.choices.length]).toEqual(["chat.completion", model, 1]);
      expect(completion.choices[0]).toMatchObject({
        finish_reason: "stop",
        message: {
          role: "assistant",
          content: of({ xai: "A filled, rolled tortilla.", openai: "First. Second." }),
          refusal: null,
        },
      });
      expect(completion.usage?.total_tokens).toBe(of({ xai: 1079, openai: 572 }));
    });

    test("streams, with thoughts before text and the counts at the end", async () => {
      answerWith("stream");
      const stream = await client.chat.completions.create({
        ...{
          model,
          messages: [user],
          stream: true,
          stream_options: { include_usage: true },
          include_thoughts: true,
          ...mode,
        },
      } as OpenAI.ChatCompletionCreateParamsStreaming);
      const chunks = await Array.fromAsync(stream);
      const deltas = chunks.flatMap((chunk) => chunk.choices.map((choice) => choice.delta as Body));
      expect([deltas[0]!["role"], typeof deltas[0]!["reasoning_content"]]).toEqual(["assistant", "string"]);
      expect(deltas.map((delta) => delta["content"] ?? "").join("")).toBe(of({ xai: "The sum: 4 🎉", openai: "4." }));
      const kinds = deltas.flatMap((delta) =>
        ["reasoning_content", "content", "extra_content"].filter((key) => key in delta),
      );
      expect([...new Set(kinds)]).toEqual(["reasoning_content", "content", "extra_content"]);
      const finish = chunks.find((chunk) => chunk.choices[0]?.finish_reason === "stop") as unknown as Body;
      expect((finish["metadata"] as Body)["thinking"]).toBe(
        deltas.map((delta) => delta["reasoning_content"] ?? "").join(""),
      );
      expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { total_tokens: of({ xai: 1079, openai: 572 }) } });
      expect(new Set(chunks.map((chunk) => chunk.id)).size).toBe(1);
      const reasoning = of({ xai: undefined, openai: { summary: "auto" } });
      expect((upstream.last.json as Body)["reasoning"] as unknown).toEqual(reasoning);
    });

    test("is a whole answer where the upstream overlooks stream: true", async () => {
      answerWith("plain");
      const stream = client.chat.completions.stream({ model, messages: [user], ...mode } as never);
      expect((await stream.finalChatCompletion()).choices[0]!.message.content).toContain(
        of({ xai: "tortilla", openai: "First" }),
      );
    });

    const toolCase = of({ xai: "tools-parallel", openai: "tools-with-interleaved-reasoning" });
    for (const [client, keep] of [
      ["echoes the message", (message: Body) => message],
      ["keeps the standard fields only", ({ role, content, tool_calls }: Body) => ({ role, content, tool_calls })],
    ] as const) {
      test(`takes a tool turn from a client that ${client}`, async () => {
        answerWith(toolCase);
        const first = (await ask([user], { tools: [weather] })).choices[0]!;
        expect(first.finish_reason).toBe("tool_calls");
        answerWith("plain");
        const outputs = first.message.tool_calls!.map(({ id }) => ({
          role: "tool" as const,
          tool_call_id: id,
          content: "rain",
        }));
        const echoed = keep(first.message as unknown as Body) as unknown as ChatCompletionMessageParam;
        await ask([user, echoed, ...outputs], { tools: [weather] });
        const types = items().map((item) => item["type"] ?? item["role"]);
        expect(types).toEqual(
          of({
            xai: [
              "user",
              "reasoning",
              "function_call",
              "function_call",
              "function_call_output",
              "function_call_output",
            ],
            openai: [
              ...["user", "reasoning", "assistant", "function_call", "reasoning", "function_call"],
              ...["function_call_output", "function_call_output"],
            ],
          }),
        );
      });

      test(`takes a streamed tool turn from a client that ${client}`, async () => {
        answerWith("stream-tools");
        const stream = client === "echoes the message" ? "a" : "b";
        const runner = troupe.client("gateway").chat.completions.stream({
          model,
          messages: [{ ...user, name: stream }],
          tools: [weather],
          ...mode,
        } as never);
        const first = (await runner.finalChatCompletion()).choices[0]!;
        expect(
          first.message.tool_calls!.every((call) => call.type === "function" && JSON.parse(call.function.arguments)),
        ).toBe(true);
        answerWith("plain");
        const outputs = first.message.tool_calls!.map(({ id }) => ({
          role: "tool" as const,
          tool_call_id: id,
          content: "rain",
        }));
        await ask([user, keep(first.message as unknown as Body) as unknown as ChatCompletionMessageParam, ...outputs], {
          tools: [weather],
        });
        expect(items().filter((item) => item["type"] === "function_call_output").length).toBe(
          first.message.tool_calls!.length,
        );
      });
    }

    test("carries the thoughts of a text turn in the message", async () => {
      answerWith(of({ xai: "thinking", openai: "thoughts-asked-for" }));
      const first = (await ask([user], { reasoning_effort: "high" })).choices[0]!.message as unknown as Body;
      expect(first["reasoning_content"]).toBe(of({ xai: "Two plus two.", openai: "**Adding**\n\n**Checking**" }));
      answerWith("plain");
      await ask([user, first as unknown as ChatCompletionMessageParam, user]);
      expect(items().map((item) => item["type"] ?? item["role"])).toEqual(["user", "reasoning", "assistant", "user"]);
      expect(items()[1]!["encrypted_content"]).toBe(of({ xai: "WjtnRFdCMihg==", openai: "gAAAAA==" }));
      // A client that strips it goes on without: nothing of the upstream's is missed.
      await ask([user, { role: "assistant", content: "4" }, user]);
      expect(items().map((item) => item["type"] ?? item["role"])).toEqual(["user", "assistant", "user"]);
    });

    test("takes images, by address and as data", async () => {
      answerWith("plain");
      const url = "data:image/png;base64,iVBORw0KGgo=";
      await ask([
        {
          role: "user",
          content: [
            { type: "image_url", image_url: { url: "https://example.com/a.png", detail: "low" } },
            { type: "image_url", image_url: { url } },
          ],
        },
      ]);
      expect(items()[0]!["content"]).toEqual([
        { type: "input_image", image_url: "https://example.com/a.png", detail: "low" },
        { type: "input_image", image_url: url },
      ]);
    });

    test("says how much of the prompt came from the cache", async () => {
      answerWith("plain");
      const { usage } = await ask([user]);
      expect(usage?.prompt_tokens_details?.cached_tokens).toBe(of({ xai: 192, openai: 8 }));
      expect(usage?.completion_tokens_details?.reasoning_tokens).toBe(of({ xai: 237, openai: 320 }));
    });

    for (const [place, options] of [
      ["at the top level", { use_responses_api: true, store: true }],
      ["in extra_body", { extra_body: { use_responses_api: true, store: true } }],
      ["under the namespace", { [family]: { use_responses_api: true, store: true } }],
    ] as const) {
      test(`takes its options ${place}`, async () => {
        answerWith("plain");
        const response = await troupe.post("/gateway/v1/chat/completions", { model, messages: [user], ...options });
        expect(response.status).toBe(200);
        expect(upstream.last.path).toBe("/v1/responses");
        const sent = upstream.last.json as Body;
        expect([
          sent["store"],
          "include" in sent,
          "use_responses_api" in sent,
          "extra_body" in sent,
          family in sent,
        ]).toEqual([...[true, false, false, false, false]]);
      });
    }

    test("sends store: false where nobody asks for more", async () => {
      answerWith("plain");
      await ask([user]);
      expect((upstream.last.json as Body)["store"]).toBe(false);
      expect((upstream.last.json as Body)["include"]).toEqual(["reasoning.encrypted_content"]);
    });

    test("is left where it is not asked for", async () => {
      const before = upstream.requests.length;
      const response = await troupe.post("/gateway/v1/chat/completions", {
        model,
        messages: [user],
        use_responses_api: false,
      });
      expect(response.status).toBe(404); // the upstream has no other route
      expect(upstream.requests.slice(before).map(({ path }) => path)).toEqual(["/v1/chat/completions"]);
    });

    for (const [option, value] of [
      ["use_responses_api", "yes"],
      ["store", 1],
      ["server_tools", [{}]],
      ["reasoning_summary", "long"],
    ] as const) {
      test(`refuses ${option} of a wrong type`, async () => {
        const before = upstream.requests.length;
        const response = await troupe.post("/gateway/v1/chat/completions", {
          model,
          messages: [user],
          ...mode,
          [option]: value,
        });
        const { error } = (await response.json()) as { error: Body };
        expect([response.status, error["code"]]).toEqual([
          400,
          expect.stringMatching(/^(invalid_value|missing_field)$/),
        ]);
        expect(error["param"]).toStartWith(option);
        expect(upstream.requests.length).toBe(before);
      });
    }

    test("names the field that this format can't carry", async () => {
      const refusal = await ask([user], { n: 2 }).catch((error) => error);
      expect(refusal).toBeInstanceOf(OpenAI.BadRequestError);
      expect([refusal.param, refusal.code]).toEqual(["n", "unsupported_parameter"]);
    });

    test("gives an upstream's refusal byte for byte", async () => {
      const body = '{"code":"x",  "error":"said \\u00e9xactly so"}';
      next = () =>
        new Response(body, {
          status: 429,
          headers: { "content-type": "application/json; x=y", "retry-after": "7", "x-request-id": "up-1" },
        });
      const response = await troupe.post("/gateway/v1/chat/completions", {
        model,
        messages: [user],
        ...mode,
        stream: true,
      });
      expect(response.status).toBe(429);
      expect(await response.text()).toBe(body);
      expect(
        ["content-type", "retry-after", "x-upstream-request-id", "x-troupe-error-source"].map((name) =>
          response.headers.get(name),
        ),
      ).toEqual([...["application/json; x=y", "7", "up-1", "upstream"]]);
    });

    test("gives a wrong key's refusal as the upstream says it", async () => {
      await using other = await Troupe.start({
        providers: { [family]: { baseUrl: `${upstream.url}/v1`, apiKey: "wrong" } },
      });
      const response = await other.post("/gateway/v1/chat/completions", { model, messages: [user], ...mode });
      expect(response.status).toBe(401);
      expect(((await response.json()) as Body)["error"]).toEqual(
        of<unknown>({
          xai: "Incorrect API key provided.",
          openai: {
            message: "Incorrect API key provided.",
            type: "invalid_request_error",
            param: null,
            code: "invalid_api_key",
          },
        }),
      );
    });

    test("takes a 200 that holds an error for the error it is", async () => {
      answerWith(of({ xai: "unavailable", openai: "error-in-a-200" }));
      const status = of({ xai: 503, openai: 429 });
      for (const stream of [false, true]) {
        const response = await troupe.post("/gateway/v1/chat/completions", {
          model,
          messages: [user],
          ...mode,
          stream,
        });
        expect([response.status, response.headers.get("x-troupe-error-source")]).toEqual([status, "upstream"]);
        expect(await response.json()).toEqual(
          await exampleResponse(`${format}/${of({ xai: "unavailable", openai: "error-in-a-200" })}`).json(),
        );
      }
    });

    test("has no stream begun when the first event is an error", async () => {
      answerWith(of({ xai: "stream-error", openai: "stream-quota" }));
      const response = await troupe.post("/gateway/v1/chat/completions", {
        model,
        messages: [user],
        ...mode,
        stream: true,
      });
      expect(response.status).toBe(429);
      expect(((await response.json()) as { error: Body }).error["message"]).toBe(
        of({ xai: "Slow down.", openai: "You exceeded your current quota." }),
      );
    });

    test("ends a stream that fails on its way with the upstream's error", async () => {
      const held = new HeldStream();
      next = () => held.response();
      held.event({ type: "response.output_text.delta", output_index: 0, delta: "So" });
      const stream = await client.chat.completions.create({
        ...{ model, messages: [user], stream: true, ...mode },
      } as OpenAI.ChatCompletionCreateParamsStreaming);
      const seen: string[] = [];
      const failure = await (async () => {
        for await (const chunk of stream) {
          seen.push(chunk.choices[0]?.delta.content ?? "");
          const error = { code: "server_error", message: "Internal error." };
          if (seen.length === 1) held.event({ type: "response.failed", response: { status: "failed", error } });
        }
      })().catch((error) => error);
      expect(seen).toEqual(["So"]);
      expect(failure).toBeInstanceOf(OpenAI.APIError);
      expect([failure.code, failure.error.message]).toEqual(["server_error", "Internal error."]);
    });

    test("ends a stream that breaks off with an error of ours", async () => {
      next = () =>
        sseResponse([
          'data: {"type":"response.output_text.delta","output_index":0,"delta":"So"}\n\n',
          "data: [DONE]\n\n",
        ]);
      const response = await troupe.post("/gateway/v1/chat/completions", {
        model,
        messages: [user],
        ...mode,
        stream: true,
      });
      const events = (await response.text()).split("\n").filter((line) => line.startsWith("data:"));
      expect(events.at(-1)).toBe("data: [DONE]");
      expect(JSON.parse(events.at(-2)!.slice(5))).toMatchObject({
        error: { code: "upstream_invalid_response" },
        object: "chat.completion.chunk",
      });
    });

    test("gives the older function calling its older form", async () => {
      answerWith(toolCase);
      const { message, finish_reason } = (await ask([user], { functions: [weather.function], function_call: "auto" }))
        .choices[0]!;
      expect([finish_reason, message.function_call, message.tool_calls]).toEqual([
        "function_call",
        { name: "weather", arguments: '{"city":"Paris"}' },
        undefined,
      ]);
      answerWith("plain");
      await ask(
        [
          user,
          { role: "assistant", content: null, function_call: message.function_call! },
          { role: "function", name: "weather", content: "rain" },
        ],
        { functions: [weather.function] },
      );
      expect(items().slice(1)).toMatchObject([
        { type: "function_call", name: "weather", arguments: '{"city":"Paris"}' },
        { type: "function_call_output", output: "rain" },
      ]);
    });
  });
}

test("a model that OpenAI has in this format only is called in it unasked", async () => {
  using upstream = new UpstreamServer(() =>
    jsonResponse({ error: { message: "no", type: "x", param: null, code: null } }, 418),
  );
  await using troupe = await Troupe.start({ providers: { openai: { baseUrl: `${upstream.url}/v1` } } });
  for (const [model, options, path] of [
    ["openai/o3-pro", {}, "/v1/responses"],
    ["openai/gpt-5.1-codex-max", {}, "/v1/responses"],
    ["openai/gpt-5.4-pro-2026-03-05", {}, "/v1/responses"],
    ["openai/o3-pro", { use_responses_api: false }, "/v1/chat/completions"],
    ["openai/gpt-5.4", {}, "/v1/chat/completions"],
  ] as const) {
    await troupe.post("/gateway/v1/chat/completions", {
      model,
      messages: [{ role: "user", content: "x" }],
      ...options,
    });
    expect([model, upstream.last.path]).toEqual([model, path]);
  }
});
