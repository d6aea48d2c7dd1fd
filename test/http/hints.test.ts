/** Usual mistakes of a first client: each answer says what was most likely meant. */
import { describe, expect, test } from "bun:test";
import { surfaceNames } from "../../src/config/surfaces.ts";
import { untilEnd } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";

const troupe = untilEnd(
  await Troupe.start({
    providers: { openai: { baseUrl: "http://127.0.0.1:1/v1", models: ["gpt-5.4"] } },
    config: {
      listen: [{ address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces: surfaceNames }],
      aliases: { fast: "openai/gpt-5.4" },
    },
  }),
);
const personasAlone = await troupe.createKey({ name: "p", tier: "free", surfaces: ["orchestrator"] });
const someModels = await troupe.createKey({ name: "m", tier: "free", models: ["troupe/tutor", "builtin/*"] });

const messages = [{ role: "user", content: "Hi" }];
const error = async (answer: Promise<Response>) =>
  ((await (await answer).json()) as { error: { message: string; code: string; param: string } }).error;

describe("a model of the other surface, or a name that is nearly one", () => {
  test.each([
    ["", "openai/gpt-5.4", "It is a provider's model: the gateway serves it, at /gateway/v1."],
    ["", "openai/anything", "It is a provider's model: the gateway serves it, at /gateway/v1."],
    ["", "builtin/echo", "It is a provider's model: the gateway serves it, at /gateway/v1."],
    ["", "fast", "It is a provider's model: the gateway serves it, at /gateway/v1."],
    ["", "guide", "Did you mean 'troupe/guide'?"],
    ["", "troupe/giude", "Did you mean 'troupe/guide'?"],
    ["/gateway", "troupe/guide", "It is a persona: the orchestrator serves it, at /v1."],
    ["/gateway", "gpt-5.4", "Did you mean 'openai/gpt-5.4'?"],
    ["/gateway", "opnai/gpt-5.4", "Did you mean 'openai/gpt-5.4'?"],
  ])("%s %s", async (base, model, hint) => {
    for (const [path, body] of [
      ["/v1/chat/completions", { model, messages }],
      ["/v1/chat/completions", { model, messages, stream: true }],
      ["/v1/messages", { model, messages, max_tokens: 9 }],
      ["/v1/responses", { model, input: "Hi" }],
    ] as const)
      expect((await error(troupe.post(base + path, body))).message).toEndWith(` ${hint}`);
    if (base === "") {
      const { message, code, param } = await error(troupe.fetch(`/v1/models/${model}`));
      expect([message.endsWith(hint), code, param]).toEqual([true, "model_not_found", "model"]);
    }
  });

  test("a key hears of nothing that it may not use", async () => {
    const chat = async (path: string, model: string, key: string) =>
      (await error(troupe.post(`${path}/v1/chat/completions`, { model, messages }, { key }))).message;
    expect(await chat("", "openai/gpt-5.4", personasAlone)).toBe("The model 'openai/gpt-5.4' does not exist.");
    expect(await chat("", "openai/gpt-5.4", someModels)).toBe("The model 'openai/gpt-5.4' does not exist.");
    expect(await chat("", "troupe/giude", someModels)).toBe("The model 'troupe/giude' does not exist.");
    expect(await chat("", "studio/producr", someModels)).toBe("The model 'studio/producr' does not exist.");
    const provider = "Name it as <provider>/<model>; providers set up here: builtin.";
    expect(await chat("/gateway", "troupe/guide", someModels)).toBe(
      `No provider is set up for 'troupe/guide'. ${provider}`,
    );
    expect(await chat("/gateway", "opnai/gpt-5.4", someModels)).toBe(
      `No provider is set up for 'opnai/gpt-5.4'. ${provider}`,
    );
  });
});

describe("a path that is nearly one", () => {
  test.each([
    ["POST", "/chat/completions", "/v1/chat/completions"],
    ["POST", "/gateway/chat/completions", "/gateway/v1/chat/completions"],
    ["POST", "/v1/gateway/chat/completions", "/gateway/v1/chat/completions"],
    ["POST", "/v1/v1/messages", "/v1/messages"],
    ["POST", "/gateway/v1/v1/messages", "/gateway/v1/messages"],
    ["POST", "/v1/chat/completions/", "/v1/chat/completions"],
    ["POST", "/v1/chat/completion", "/v1/chat/completions"],
    ["POST", "/responses", "/v1/responses"],
    ["POST", "/gateway/embeddings", "/gateway/v1/embeddings"],
    ["GET", "/models", "/v1/models"],
    ["GET", "/models/troupe/guide", "/v1/models/troupe/guide"],
    ["POST", "/models/troupe/guide:generateContent", "/v1/models/troupe/guide:generateContent"],
    ["GET", "/v1/health", "/health"],
    ["GET", "/gateway/metrics", "/metrics"],
    ["GET", "/admin/keys", "/admin/v1/keys"],
    ["POST", "/v1/images/generations", "/gateway/v1/images/generations"],
  ])("%s %s", async (method, path, meant) => {
    const { message, code } = await error(troupe.fetch(path, { method }));
    expect([message, code]).toEqual([`There is nothing at ${method} ${path}. Did you mean ${meant}?`, "not_found"]);
  });

  test.each(["/", "/v1", "/gateway", "/favicon.ico", `/${"x".repeat(4000)}`, "/v1/%00"])(
    "nothing is guessed for %s",
    async (path) => {
      const { message } = await error(troupe.fetch(path, { method: path === "/" ? "PUT" : "POST" }));
      expect(message).not.toContain("mean");
    },
  );
});
