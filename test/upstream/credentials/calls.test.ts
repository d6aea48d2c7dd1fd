import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { Console } from "../../cli/console.ts";
import { authority } from "../../helpers/credentials/entra.ts";
import { ManualClock } from "../../helpers/manual-clock.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";
import { Troupe } from "../../helpers/troupe.ts";
import { jsonResponse, UpstreamServer } from "../../helpers/upstream-server.ts";

const completion = {
  ...{ id: "c", object: "chat.completion", created: 1, model: "gpt" },
  choices: [{ index: 0, message: { role: "assistant", content: "Hi" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
};

describe("calls of an account without a key", () => {
  let isUp = true;
  let refused: string | undefined;
  const clock = new ManualClock();
  const entra = authority("client-1", ({ client_secret: secret }) => isUp && secret === "s~1");
  const upstream = new UpstreamServer(({ headers }) =>
    headers.get("authorization") === refused || headers.has("api-key")
      ? jsonResponse({ error: { code: "Unauthorized", message: "no" } }, 401)
      : jsonResponse(completion),
  );
  let troupe: Troupe;

  beforeAll(async () => {
    troupe = await Troupe.start({
      clock,
      providers: { azure: { baseUrl: upstream.url, options: { auth: "entra" }, apiKey: "not-used" } },
      env: {
        ...{ AZURE_TENANT_ID: "tenant-1", AZURE_CLIENT_ID: "client-1", AZURE_CLIENT_SECRET: "s~1" },
        AZURE_AUTHORITY_HOST: entra.url,
      },
    });
  });
  afterAll(async () => {
    await troupe[Symbol.asyncDispose]();
    upstream[Symbol.dispose]();
    entra[Symbol.dispose]();
  });

  const call = () =>
    troupe.fetch("/gateway/v1/chat/completions", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: "azure/gpt", messages: [{ role: "user", content: "Hi" }] }),
    });

  test("wait for one token, and carry it", async () => {
    const answers = await Promise.all([call(), call(), call()]);
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(upstream.requests.map(({ headers }) => headers.get("authorization"))).toEqual(
      Array(3).fill("Bearer entra-1"),
    );
    expect(entra.requests).toHaveLength(1);
  });

  test("get another token after one that was refused", async () => {
    clock.advance(60_000);
    refused = "Bearer entra-1";
    expect((await call()).status).toBe(401);
    clock.advance(3_600_000);
    refused = undefined;
    expect((await call()).status).toBe(200);
    expect(upstream.last.headers.get("authorization")).toBe("Bearer entra-2");
  });

  test("are answered with 503 where there is no token, without its secret", async () => {
    isUp = false;
    clock.advance(3_600_000);
    const before = upstream.requests.length;
    const answer = await call();
    const text = await answer.text();
    expect([answer.status, upstream.requests.length - before]).toEqual([503, 0]);
    expect(JSON.parse(text).error).toMatchObject({
      code: "upstream_unavailable",
      message:
        "azure: no Entra credentials (client secret: Entra (client secret (AZURE_CLIENT_SECRET)) answered 401 (invalid_client)).",
    });
    isUp = true;
    clock.advance(60_000);
    expect((await call()).status).toBe(200);
  });
});

describe("commands", () => {
  const config = (url: string) => `providers: {azure: {base_url: "${url}", options: {auth: entra}}}\n`;

  test("doctor names the source of the credentials, or what is missing", async () => {
    using folder = new TempFolder();
    using entra = authority("client-1", ({ client_secret: secret }) => secret === "s~1");
    writeFileSync(folder.file("troupe.yaml"), config("http://127.0.0.1:9"));
    const env = { AZURE_TENANT_ID: "tenant-1", AZURE_CLIENT_ID: "client-1", AZURE_AUTHORITY_HOST: entra.url };
    const found = async (secret: string) => {
      const { out } = await new Console(folder.path, { ...env, AZURE_CLIENT_SECRET: secret }).run("doctor --json");
      expect(out).not.toContain(secret);
      const { checks } = JSON.parse(out) as { checks: { what: string; state: string; found: string }[] };
      return checks.flatMap(({ what, state, found }) => (what === "credentials of azure" ? [[state, found]] : []));
    };
    expect(await found("s~1")).toEqual([["ok", "client secret (AZURE_CLIENT_SECRET)"]]);
    expect(await found("wrong~")).toEqual([["error", expect.stringContaining("answered 401 (invalid_client)")]]);
  });

  test("render shows *** for a token, and asks nobody for one", async () => {
    using folder = new TempFolder();
    writeFileSync(folder.file("troupe.yaml"), config("http://127.0.0.1:9"));
    mkdirSync(folder.file("personas/acme"), { recursive: true });
    writeFileSync(folder.file("personas/acme/one.yaml"), "description: x\nmodel: azure/gpt\nsystem: Hi.\n");
    const { out, code } = await new Console(folder.path).run("personas render acme/one");
    expect([code, out.includes("\nauthorization: ***\n")]).toEqual([0, true]);
  });

  test("check wants a key where nothing else was chosen", async () => {
    using folder = new TempFolder();
    writeFileSync(folder.file("troupe.yaml"), "providers: {azure: {base_url: https://x.test}}\n");
    const { err, out } = await new Console(folder.path).run("check");
    expect(err + out).toContain(
      "providers.azure: has no key: set AZURE_OPENAI_API_KEY or api_key or options.auth: entra, or enabled: false",
    );
    writeFileSync(folder.file("troupe.yaml"), config("https://x.test"));
    expect((await new Console(folder.path).run("check")).out).toContain("azure (https://x.test, entra)");
    writeFileSync(
      folder.file("troupe.yaml"),
      "providers: {azure: {base_url: https://x.test, options: {auth: oauth}}}\n",
    );
    expect((await new Console(folder.path).run("check")).code).not.toBe(0);
  });
});
