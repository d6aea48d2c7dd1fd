/** Models and personas by names without a slash. */
import { describe, expect, test } from "bun:test";
import { untilEnd } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";

const upstream = untilEnd(
  new UpstreamServer(() =>
    jsonResponse({ choices: [{ index: 0, message: { content: "hello" }, finish_reason: "stop" }] }),
  ),
);
const aliases = { "gpt-5": "openai/gpt-5-large", "gpt-*": "openai/*-x", tutor: "troupe/guide", lost: "nobody/x" };
const troupe = untilEnd(await Troupe.start({ providers: { openai: { baseUrl: upstream.url } }, config: { aliases } }));

const messages = [{ role: "user" as const, content: "hi" }];

describe("an alias", () => {
  test.each([
    ["gpt-5", "gpt-5-large"],
    ["gpt-oss", "oss-x"],
  ])("%s on the gateway goes to %s, and the answer has the name that was asked for", async (model, sent) => {
    const answer = await troupe.client("gateway").chat.completions.create({ model, messages });
    expect(upstream.last.json).toMatchObject({ model: sent });
    expect(answer.model).toBe(model);
  });

  test("names a persona on the orchestrator", async () => {
    troupe.setTargets("troupe/guide", ["openai/y"]);
    const answer = await troupe.client("orchestrator").chat.completions.create({ model: "tutor", messages });
    expect(upstream.last.json).toMatchObject({ model: "y", messages: [{ role: "system" }, ...messages] });
    expect(answer.model).toBe("tutor");
  });

  test("leads nowhere on the other surface, or without its provider", async () => {
    const orchestrator = await troupe.post("/v1/chat/completions", { model: "gpt-5", messages });
    expect([orchestrator.status, await orchestrator.json()]).toMatchObject([
      404,
      {
        error: {
          message: "The model 'gpt-5' does not exist. It is a provider's model: the gateway serves it, at /gateway/v1.",
        },
      },
    ]);
    for (const model of ["tutor", "lost"]) {
      const gateway = await troupe.post("/gateway/v1/chat/completions", { model, messages });
      expect([gateway.status, await gateway.json()]).toMatchObject([400, { error: { code: "unknown_provider" } }]);
    }
  });

  test("is listed where it leads somewhere, and found by its name", async () => {
    const idsOf = async (surface: "gateway" | "orchestrator") =>
      (await troupe.client(surface).models.list()).data.map(({ id }) => id).filter((id) => !id.includes("/"));
    expect(await idsOf("gateway")).toEqual(["gpt-5"]);
    expect(await idsOf("orchestrator")).toEqual(["tutor"]);
    const client = troupe.client("gateway");
    expect(await client.models.retrieve("gpt-oss")).toMatchObject({
      id: "gpt-oss",
      owned_by: "openai",
      name: "gpt-oss",
    });
    const tutor = await troupe.client("orchestrator").models.retrieve("tutor");
    expect(tutor).toMatchObject({ id: "tutor", owned_by: "troupe" });
    expect((await troupe.fetch("/gateway/v1/models/lost")).status).toBe(404);
  });

  test("may be used by a key that is for it, or for what it stands for", async () => {
    const status = async (models: string[], model: string, path = "/gateway/v1/chat/completions") => {
      const key = await troupe.createKey({ name: "few", tier: "pro", models });
      return (await troupe.post(path, { model, messages }, { key })).status;
    };
    expect(await status(["gpt-5"], "gpt-5")).toBe(200);
    expect(await status(["openai/gpt-5-large"], "gpt-5")).toBe(200);
    expect(await status(["gpt-5"], "openai/gpt-5-large")).toBe(403);
    expect(await status(["groq/*"], "gpt-5")).toBe(403);
    expect(await status(["troupe/guide"], "tutor", "/v1/chat/completions")).toBe(200);
    expect(await status(["troupe/coach"], "tutor", "/v1/chat/completions")).toBe(404);
  });
});
