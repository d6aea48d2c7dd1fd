/** The lists of models as `@anthropic-ai/sdk` reads them. */
import { describe, expect, test } from "bun:test";
import Anthropic, { type APIError } from "@anthropic-ai/sdk";
import { untilEnd } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";

const models = Array.from({ length: 45 }, (_, at) => `m-${at}`);
const troupe = untilEnd(
  await Troupe.start({
    providers: { openai: { baseUrl: "http://127.0.0.1:9", models } },
    config: { aliases: { "claude-sonnet-4-5": "openai/m-1" } },
  }),
);
const client = new Anthropic({ baseURL: `${troupe.url}/gateway`, apiKey: troupe.key, authToken: null, maxRetries: 0 });

const all = async () => {
  const { data } = await client.models.list({ limit: 1000 });
  return data.map(({ id }) => id);
};

describe("for Anthropic's clients", () => {
  test("every page comes in turn, forwards and backwards", async () => {
    const ids = await all();
    expect(ids).toEqual(expect.arrayContaining(["openai/m-0", "builtin/echo", "claude-sonnet-4-5"]));
    const forwards: string[] = [];
    for await (const { id } of client.models.list({ limit: 7 })) forwards.push(id);
    expect(forwards).toEqual(ids);
    const pages: string[][] = [];
    for await (const page of (await client.models.list({ limit: 20, before_id: ids.at(-1)! })).iterPages()) {
      pages.unshift(page.data.map(({ id }) => id));
    }
    expect(pages.flat()).toEqual(ids.slice(0, -1));
    const first = await client.models.list();
    expect(first.data).toHaveLength(20);
    expect(first).toMatchObject({ has_more: true, first_id: ids[0], last_id: ids[19] });
    expect(await client.models.list({ after_id: ids.at(-1)! })).toMatchObject({
      data: [],
      has_more: false,
      first_id: null,
    });
  });

  test("one is found by its id", async () => {
    const model = await client.models.retrieve("openai/m-3");
    expect(model).toMatchObject({ type: "model", id: "openai/m-3", display_name: "m-3 (openai)", lifecycle: "active" });
    expect(new Date(model.created_at).getTime()).not.toBeNaN();
    const persona = await new Anthropic({ baseURL: troupe.url, apiKey: troupe.key, authToken: null }).models.retrieve(
      "troupe/tutor",
    );
    expect(persona).toMatchObject({ type: "model", id: "troupe/tutor" });
  });

  test("errors have their classes and the request's id", async () => {
    const failed = (promise: PromiseLike<unknown>): Promise<APIError> =>
      Promise.resolve(promise).then(
        () => Promise.reject(new Error("it did not fail")),
        (error) => error,
      );
    const missing = await failed(client.models.retrieve("nobody/none"));
    expect(missing).toBeInstanceOf(Anthropic.NotFoundError);
    expect(missing.requestID).toMatch(/^req_/);
    expect(await failed(client.models.list({ after_id: "none" }))).toBeInstanceOf(Anthropic.BadRequestError);
    const { message } = await failed(client.models.list({ limit: 1001 }));
    expect(message).toContain("limit must be a whole number from 1 to 1000.");
    const stranger = client.withOptions({ apiKey: "wrong" });
    expect(await failed(stranger.models.list())).toBeInstanceOf(Anthropic.AuthenticationError);
    const method = await troupe.fetch("/v1/models", { method: "PUT", headers: { "anthropic-version": "2023-06-01" } });
    expect([method.status, await method.json()]).toMatchObject([405, { type: "error" }]);
  });

  test("others still get the other form", async () => {
    expect(await (await troupe.fetch("/gateway/v1/models?limit=1")).json()).toMatchObject({ object: "list" });
  });
});
