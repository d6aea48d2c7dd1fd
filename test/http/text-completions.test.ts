/** Legacy completions by the official client: translated, passed on as they are, and of a persona. */
import { describe, expect, test } from "bun:test";
import type OpenAI from "openai";
import { HeldStream } from "../helpers/held-stream.ts";
import { untilEnd } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, sseResponse, UpstreamServer } from "../helpers/upstream-server.ts";

let answer: () => Response | Promise<Response>;

const upstream = untilEnd(new UpstreamServer(() => answer()));
const provider = { baseUrl: `${upstream.url}/v1` };
const troupe = untilEnd(await Troupe.start({ providers: { openai: provider, vllm: provider } }));
troupe.setTargets("troupe/tutor", ["vllm/x"]);
const client = troupe.client("gateway");

const chatAnswer = (...contents: string[]) =>
  jsonResponse({
    choices: contents.map((content, index) => ({
      index,
      message: { role: "assistant", content },
      finish_reason: "stop",
    })),
    usage: { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 },
  });

describe("translated", () => {
  test("the prompt is the user's message, and the answer has this format's form", async () => {
    answer = () => chatAnswer(" upon a time", " there was");
    const completion = await client.completions.create({
      model: "openai/gpt-4.1",
      prompt: ["Once"],
      echo: true,
      n: 2,
      stop: ["."],
      max_tokens: 9,
      temperature: 1,
    });
    expect(upstream.last.path).toBe("/v1/chat/completions");
    expect(upstream.last.json).toEqual({
      model: "gpt-4.1",
      messages: [{ role: "user", content: "Once" }],
      n: 2,
      stop: ["."],
      max_tokens: 9,
      temperature: 1,
    });
    expect(completion).toEqual({
      id: expect.stringMatching(/^cmpl-/),
      object: "text_completion",
      created: expect.any(Number),
      model: "openai/gpt-4.1",
      choices: [
        { text: "Once upon a time", index: 0, logprobs: null, finish_reason: "stop" },
        { text: "Once there was", index: 1, logprobs: null, finish_reason: "stop" },
      ],
      usage: expect.objectContaining({ prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 }),
    } as never);
  });

  test("a stream is this format's chunks, with the prompt first, the counts and [DONE]", async () => {
    const held = new HeldStream();
    answer = () => held.response();
    const asking = client.completions.create({
      model: "openai/gpt-5",
      prompt: "Once",
      echo: true,
      stream: true,
      stream_options: { include_usage: true },
    });
    for (const text of [" upon", " a", " time", "\n"]) held.fragment(text);
    held.finish();
    const chunks: OpenAI.Completion[] = [];
    for await (const chunk of await asking) chunks.push(chunk);
    expect(chunks.map(({ choices }) => choices[0]?.text).join("")).toBe("Once upon a time\n");
    expect(chunks.every(({ object, id }) => object === "text_completion" && id === chunks[0]!.id)).toBe(true);
    expect(chunks.filter(({ choices }) => choices[0]?.finish_reason === "stop").length).toBe(1);
    expect(chunks.at(-1)!.choices).toEqual([]);
    const raw = troupe.post("/gateway/v1/completions", { model: "openai/gpt-5", prompt: "x", stream: true });
    const other = new HeldStream();
    answer = () => other.response();
    other.fragment("a");
    other.finish();
    expect(await (await raw).text()).toEndWith("data: [DONE]\n\n");
  });

  test("log probabilities stand where this format has them", async () => {
    const top = [
      { token: "a", logprob: -0.1, bytes: null },
      { token: "b", logprob: -3, bytes: null },
    ];
    const content = [
      { token: "ab", logprob: -0.5, bytes: null, top_logprobs: top },
      { token: "c", logprob: -1, bytes: null, top_logprobs: top },
    ];
    answer = () =>
      jsonResponse({
        choices: [
          { index: 0, message: { role: "assistant", content: "abc" }, finish_reason: "length", logprobs: { content } },
        ],
      });
    const { choices } = await client.completions.create({ model: "openai/gpt-4.1", prompt: "x", logprobs: 2 });
    expect(upstream.last.json).toMatchObject({ logprobs: true, top_logprobs: 2 });
    const tops = { a: -0.1, b: -3 };
    expect(choices[0]).toEqual({
      text: "abc",
      index: 0,
      logprobs: { tokens: ["ab", "c"], token_logprobs: [-0.5, -1], top_logprobs: [tops, tops], text_offset: [0, 2] },
      finish_reason: "length",
    });
  });

  test.each([
    [{ prompt: ["a", "b"] }, "prompt", "unsupported_parameter"],
    [{ prompt: [1, 2] }, "prompt", "unsupported_parameter"],
    [{ prompt: [[1], [2]] }, "prompt", "unsupported_parameter"],
    [{ prompt: "a", suffix: "b" }, "suffix", "unsupported_parameter"],
    [{ prompt: "a", best_of: 3 }, "best_of", "unsupported_parameter"],
    [{ prompt: "a", echo: true, logprobs: 1 }, "echo", "unsupported_parameter"],
    [{ prompt: "a", echo: true, max_tokens: 0 }, "max_tokens", "unsupported_parameter"],
    [{}, "prompt", "missing_field"],
    [{ prompt: 1 }, "prompt", "invalid_value"],
    [{ prompt: "a", logprobs: 6 }, "logprobs", "invalid_value"],
    [{ prompt: "a", stream_options: {} }, "stream_options", "invalid_value"],
  ])("%j is refused, with its place: %s", async (body, param, code) => {
    const before = upstream.requests.length;
    const response = await troupe.post("/gateway/v1/completions", { model: "openai/gpt-5", ...body });
    expect([response.status, await response.json()]).toMatchObject([400, { error: { param, code } }]);
    expect(upstream.requests.length).toBe(before);
  });
});

describe("where the upstream has them", () => {
  const body = { model: "vllm/m", prompt: ["a", "b"], suffix: "c", best_of: 2, guided_regex: "x" };

  test("request and answer pass as they are, but for the model's name", async () => {
    const theirs = JSON.stringify({
      id: "cmpl-9",
      object: "text_completion",
      model: "m",
      choices: [{ text: "x", index: 0, logprobs: null, finish_reason: "stop" }],
      usage: { prompt_tokens: 2, completion_tokens: 1, total_tokens: 3 },
      own: 1.0,
    });
    answer = () => new Response(theirs, { headers: { "content-type": "application/json" } });
    const response = await troupe.post("/gateway/v1/completions", body);
    expect(upstream.last.path).toBe("/v1/completions");
    expect(upstream.last.text).toBe(JSON.stringify(body).replace("vllm/", ""));
    expect([response.status, await response.text()]).toEqual([200, theirs]);
  });

  test("a stream passes byte for byte, and one that breaks is told of", async () => {
    const event = (text: string, finish: string | null) =>
      `data: {"id":"cmpl-9","object":"text_completion","choices":[{"index":0,"text":${JSON.stringify(text)},"finish_reason":${JSON.stringify(finish)}}]}\n\n`;
    const events = [event("x", null), event("y\n", null), event("", "stop"), "data: [DONE]\n\n"];
    answer = () => sseResponse(events);
    const asked = () => troupe.post("/gateway/v1/completions", { ...body, stream: true });
    expect(await (await asked()).text()).toBe(events.join(""));
    answer = () => sseResponse(events.slice(0, 2));
    const broken = await (await asked()).text();
    expect(broken).toStartWith(events.slice(0, 2).join(""));
    expect(broken).toMatch(/data: \{"error":\{.*"object":"text_completion".*\nevent: error\n\ndata: \[DONE\]\n\n$/);
    // `[DONE]` without a reason is the upstream's word that it ended, unless more comes.
    const unreasoned = [...events.slice(0, 2), events[3]!];
    answer = () => sseResponse(unreasoned);
    expect(await (await asked()).text()).toBe(unreasoned.join(""));
    answer = () => sseResponse([...unreasoned, events[0]!]);
    const more = await (await asked()).text();
    expect(more).toStartWith(events.slice(0, 2).join(""));
    expect(more).toMatch(/^data: \{"error":\{.*\n\ndata: \{"error":.*\nevent: error\n\ndata: \[DONE\]\n\n$/m);
    expect(more.split("[DONE]")).toHaveLength(2);
  });

  // What evaluation harnesses ask a prompt's likelihood by.
  test("max_tokens: 0 with echo and logprobs passes, and so does an answer without a word of its own", async () => {
    const ask = { model: "vllm/m", prompt: "Once upon", max_tokens: 0, echo: true, logprobs: 1 };
    const logprobs = {
      tokens: ["Once", " upon"],
      token_logprobs: [null, -0.25],
      top_logprobs: [null, {}],
      text_offset: [0, 4],
    };
    const theirs = JSON.stringify({
      ...{ id: "cmpl-9", object: "text_completion", model: "m" },
      choices: [{ text: "Once upon", index: 0, logprobs, finish_reason: "length" }],
      usage: { prompt_tokens: 2, completion_tokens: 0, total_tokens: 2 },
    });
    answer = () => new Response(theirs, { headers: { "content-type": "application/json" } });
    const response = await troupe.post("/gateway/v1/completions", ask);
    expect(upstream.last.text).toBe(JSON.stringify(ask).replace("vllm/", ""));
    expect([response.status, await response.text()]).toEqual([200, theirs]);
    const refused = await troupe.post("/gateway/v1/completions", { ...ask, max_tokens: -1 });
    expect([refused.status, await refused.json()]).toMatchObject([
      400,
      { error: { param: "max_tokens", message: "max_tokens must be an integer of at least 0." } },
    ]);
  });

  test("OpenAI has them for its old models alone", async () => {
    answer = () =>
      jsonResponse({ object: "text_completion", choices: [{ text: "x", index: 0, finish_reason: "stop" }] });
    const { choices } = await client.completions.create({ model: "openai/gpt-3.5-turbo-instruct", prompt: [1, 2] });
    expect([choices[0]!.text, upstream.last.path]).toEqual(["x", "/v1/completions"]);
  });
});

test("a text that is no string is an error, and never left out", async () => {
  const ask = { model: "vllm/x", prompt: "Once", max_tokens: 3 };
  const choice = (text: unknown) => ({ index: 0, text, finish_reason: "stop" });
  for (const text of [5, {}, ["a"], null, undefined, true]) {
    answer = () => jsonResponse({ id: "cmpl-1", object: "text_completion", choices: [choice(text)] });
    const got = await troupe.post("/gateway/v1/completions", ask);
    expect([text, got.status, ((await got.json()) as { error: { code: string } }).error.code]).toEqual([
      text,
      503,
      "upstream_invalid_response",
    ]);
  }
  for (const text of [5, {}, ["a"], true]) {
    const chunks = [{ choices: [{ ...choice("a"), finish_reason: null }] }, { choices: [choice(text)] }];
    answer = () => sseResponse([...chunks.map((one) => `data: ${JSON.stringify(one)}\n\n`), "data: [DONE]\n\n"]);
    const got = await troupe.post("/gateway/v1/completions", { ...ask, stream: true });
    expect(await got.text()).toContain("upstream_invalid_response");
  }
});

test("a persona answers too, with its own words before the prompt", async () => {
  answer = () => chatAnswer("hello");
  const said = await troupe.client("orchestrator").completions.create({ model: "troupe/tutor", prompt: "Hi" });
  expect([said.choices[0]!.text, said.model]).toEqual(["hello", "troupe/tutor"]);
  expect(upstream.last.path).toBe("/v1/chat/completions");
  const { messages } = upstream.last.json as { messages: { role: string; content: string }[] };
  expect(messages[0]!.role).toBe("system");
  expect(messages.at(-1)).toEqual({ role: "user", content: "Hi" });
});

test("a retry under one service-request-id gets the same bytes", async () => {
  const held = new HeldStream();
  answer = () => held.response();
  const ask = () =>
    troupe.post(
      "/gateway/v1/completions",
      { model: "openai/gpt-5", prompt: "x", stream: true },
      { headers: { "service-request-id": "legacy" } },
    );
  const asked = ask();
  held.fragment("a");
  held.fragment("b");
  held.finish();
  const text = await (await asked).text();
  const calls = upstream.requests.length;
  expect(await (await ask()).text()).toBe(text);
  expect(upstream.requests.length).toBe(calls);
});
