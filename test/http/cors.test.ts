import { describe, expect, test } from "bun:test";
import { Troupe } from "../helpers/troupe.ts";

const page = "https://app.example.com";
const body = { model: "builtin/echo", messages: [{ role: "user", content: "hi" }] };

const askedHeaders = "authorization,api-key,content-type,x-api-key,x-goog-api-key,x-stainless-lang";

const preflight = (troupe: Troupe, path: string, origin: string) =>
  troupe.fetch(path, {
    key: null,
    method: "OPTIONS",
    headers: {
      origin,
      "access-control-request-method": "POST",
      "access-control-request-headers": askedHeaders,
    },
  });

const accessHeaders = (response: Response) =>
  [...response.headers.keys()].filter((name) => name.startsWith("access-control-"));

/** Lists of models differ by who asks for them, too. */
const variesByOrigin = (response: Response) => response.headers.get("vary")?.split(", ").includes("origin") === true;

describe("without configured origins", () => {
  test("no answer allows anything", async () => {
    await using troupe = await Troupe.start();
    const asked = await preflight(troupe, "/v1/chat/completions", page);
    expect(asked.status).toBe(405);
    expect(accessHeaders(asked)).toEqual([]);
    const called = await troupe.fetch("/v1/models", { headers: { origin: page } });
    expect(called.status).toBe(200);
    expect(accessHeaders(called)).toEqual([]);
    expect(variesByOrigin(called)).toBe(false);
  });
});

describe("with a configured origin", () => {
  const config = { cors: { origins: [page] } };

  test("its preflight passes without a key, for the methods that are there", async () => {
    await using troupe = await Troupe.start({ config });
    const answer = await preflight(troupe, "/v1/chat/completions", page);
    expect(answer.status).toBe(204);
    expect(await answer.text()).toBe("");
    expect(answer.headers.get("access-control-allow-origin")).toBe(page);
    expect(answer.headers.get("access-control-allow-methods")).toContain("POST");
    expect(answer.headers.get("access-control-allow-headers")).toBe(askedHeaders);
    expect(answer.headers.get("access-control-allow-credentials")).toBeNull();
    expect(answer.headers.get("x-ratelimit-limit")).toBe("600");
    expect(answer.headers.get("vary")).toBe("origin");
  });

  test.each(["/v1/chat/completions", "/gateway/v1/chat/completions"])(
    "answers at %s can be read, with request id and rate headers",
    async (path) => {
      await using troupe = await Troupe.start({ config });
      const answer = await troupe.post(
        path,
        { ...body, model: path.startsWith("/gateway") ? "builtin/echo" : "troupe/tutor", stream: true },
        { headers: { origin: page } },
      );
      expect(answer.status).toBe(200);
      expect(answer.headers.get("access-control-allow-origin")).toBe(page);
      const exposed = answer.headers.get("access-control-expose-headers")!.split(", ");
      expect(exposed).toContain("x-request-id");
      expect(exposed).toContain("x-ratelimit-remaining");
      await answer.text();
    },
  );

  test("errors can be read too", async () => {
    await using troupe = await Troupe.start({ config });
    const answer = await troupe.post("/v1/chat/completions", "{", { headers: { origin: page } });
    expect(answer.status).toBe(400);
    expect(answer.headers.get("access-control-allow-origin")).toBe(page);
    const keyless = await troupe.fetch("/v1/models", { key: null, headers: { origin: page } });
    expect(keyless.status).toBe(401);
    expect(keyless.headers.get("access-control-allow-origin")).toBe(page);
  });

  test.each(["https://app.example.com.evil.test", "http://app.example.com", "null"])(
    "the origin %s is told nothing",
    async (origin) => {
      await using troupe = await Troupe.start({ config });
      const asked = await preflight(troupe, "/v1/chat/completions", origin);
      expect(asked.status).toBe(405);
      expect(accessHeaders(asked)).toEqual([]);
      const called = await troupe.fetch("/v1/models", { headers: { origin } });
      expect(accessHeaders(called)).toEqual([]);
      // A cache must not give this answer to the allowed origin.
      expect(variesByOrigin(called)).toBe(true);
    },
  );
});

test("with *, any origin may read, and answers do not differ by it", async () => {
  await using troupe = await Troupe.start({ config: { cors: { origins: ["*"] } } });
  const answer = await troupe.fetch("/v1/models", { headers: { origin: "https://anything.test" } });
  expect(answer.headers.get("access-control-allow-origin")).toBe("*");
  expect(variesByOrigin(answer)).toBe(false);
  expect((await preflight(troupe, "/gateway/v1/chat/completions", "https://anything.test")).status).toBe(204);
});
