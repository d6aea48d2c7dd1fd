/** `troupe facts show`: what is in use, and what refusals taught a server that runs. */
import { expect, test } from "bun:test";
import { TempFolder } from "../../helpers/temp-folder.ts";
import { Troupe, testConfig } from "../../helpers/troupe.ts";
import { jsonResponse, UpstreamServer } from "../../helpers/upstream-server.ts";
import { Console } from "../console.ts";

const completion = {
  choices: [{ index: 0, message: { role: "assistant", content: "hello" }, finish_reason: "stop" }],
};
const error = { message: "No.", type: "invalid_request_error", param: "stream_options", code: "unknown_parameter" };

test("shows what refusals taught the server that is named, of all models and of one", async () => {
  using upstream = new UpstreamServer(({ json }) =>
    (json as { stream_options?: unknown }).stream_options === undefined
      ? jsonResponse(completion)
      : jsonResponse({ error }, 400),
  );
  using folder = new TempFolder();
  const { listen } = testConfig("", {});
  await using troupe = await Troupe.start({
    providers: { openai: { baseUrl: upstream.url } },
    config: { listen: [{ ...listen[0]!, surfaces: ["orchestrator", "gateway", "admin"] }] },
    surfaces: ["gateway", "admin"],
  });
  const body = { model: "openai/own-model", messages: [{ role: "user", content: "Hi" }], stream: true };
  await (await troupe.post("/gateway/v1/chat/completions", body)).text();
  const shell = new Console(folder.path, { TROUPE_KEY: troupe.key });

  const all = await shell.run(["facts", "show", "--url", troupe.url]);
  expect(all.out).toMatch(/learned +1 by refusals, for a day each/);
  expect(all.out).toMatch(/openai\/own-model +stream_usage: false +20\d\d-/);
  const { learned } = JSON.parse((await shell.run(["facts", "show", "--json", "--url", troupe.url])).out);
  const fact = { provider: "openai", model: "own-model", fact: "stream_usage: false", until: expect.any(String) };
  expect(learned).toEqual([fact]);

  const one = await shell.run(["facts", "show", "openai/own-model", "--explain", "--url", troupe.url]);
  expect(one.out).toMatch(/stream_usage +false +a refusal, until 20\d\d-/);
  const other = await shell.run(["facts", "show", "openai/gpt-6.1-sol", "--explain", "--url", troupe.url]);
  expect(other.out).not.toContain("a refusal");

  shell.env["TROUPE_KEY"] = await troupe.createKey({ name: "plain", tier: "pro", surfaces: ["gateway"] });
  const plain = await shell.run(["facts", "show", "--url", troupe.url]);
  expect([plain.code, plain.out]).toEqual([0, expect.stringContaining("keys with admin among their surfaces alone")]);
});

test("says that nothing is known of what was learned where no server runs", async () => {
  using folder = new TempFolder();
  const { code, out } = await new Console(folder.path).run("--port 0 facts show");
  expect([code, out]).toEqual([0, expect.stringContaining("not known: no server of this configuration runs here")]);
  expect(JSON.parse((await new Console(folder.path).run("--port 0 facts show --json")).out).learned).toBeNull();
});
