/** Retries with a service-request-id call no tool twice, however the first call ended. */
import { beforeEach, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { stringify } from "yaml";
import { callPiece, chunk, completionOf, endingOf, streamed } from "../helpers/chat-upstream.ts";
import { testServer } from "../helpers/mcp.ts";
import { served, untilEnd } from "../helpers/served.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { TroupeProcess } from "../helpers/troupe-process.ts";
import { jsonResponse, type RecordedRequest } from "../helpers/upstream-server.ts";

const folder = untilEnd(new TempFolder());
const calls = folder.file("calls");
const persona = "description: Works.\nmodel: openrouter/gpt\nsystem: You work.\nmcp: [{ server: desk }]\n";
let answer: (request: RecordedRequest) => Response | Promise<Response>;

mkdirSync(folder.file("personas/house"), { recursive: true });
writeFileSync(folder.file("personas/house/clerk.yaml"), persona);
const { troupe, upstream } = await served(
  (request) => answer(request),
  (url) => ({
    personas: folder.file("personas"),
    providers: { openrouter: { baseUrl: url } },
    config: { mcpServers: { desk: testServer({ CALLS: calls }) } },
  }),
);
await troupe.server.services.mcp.find("desk")!.tools();
beforeEach(() => writeFileSync(calls, ""));

const made = () => readFileSync(calls, "utf8").split("\n").slice(0, -1);
const call = (name: string, args: object) => ({
  id: "call_0",
  type: "function",
  function: { name, arguments: JSON.stringify(args) },
});
const body = { model: "house/clerk", messages: [{ role: "user", content: "hi" }] };
const ask = (id: string, more: object = {}, init: { signal?: AbortSignal } = {}) =>
  troupe.post("/v1/chat/completions", { ...body, ...more }, { headers: { "service-request-id": id }, ...init });
/** One turn that asks for a tool, then what the test says. */
const afterTool =
  (then: () => Response | Promise<Response>, name = "desk__add", args: object = { a: 1, b: 1 }) =>
  (request: RecordedRequest) => {
    const { messages, stream } = request.json as { messages: { role: string }[]; stream?: boolean };
    if (messages.some(({ role }) => role === "tool")) return then();
    if (stream === true) return streamed(callPiece(0, JSON.stringify(args), name), ...endingOf("tool_calls"))();
    return jsonResponse(completionOf({ content: null, tool_calls: [call(name, args)] }, "tool_calls"));
  };
const codeOf = async (response: Response) => ((await response.json()) as { error: { code: string } }).error.code;

describe("a retry", () => {
  test("of a call that finished is a replay, plain and streamed", async () => {
    for (const stream of [false, true]) {
      writeFileSync(calls, "");
      answer = afterTool(() =>
        stream ? streamed(chunk({ content: "2" }), ...endingOf())() : jsonResponse(completionOf({ content: "2" })),
      );
      const withoutIds = (text: string) => text.replaceAll(/^id: .*\n/gm, "");
      const first = await (await ask(`done-${stream}`, { stream })).text();
      const second = await ask(`done-${stream}`, { stream });
      expect(second.headers.get("idempotent-replayed")).toBe("true");
      expect(withoutIds(await second.text())).toBe(withoutIds(first));
      expect(made()).toHaveLength(1);
    }
  });

  test("while it runs joins it", async () => {
    const release = Promise.withResolvers<Response>();
    answer = afterTool(() => release.promise);
    const before = upstream.requests.length;
    const first = ask("joined");
    await upstream.received(before + 2);
    const second = ask("joined");
    release.resolve(jsonResponse(completionOf({ content: "2" })));
    expect(await (await first).json()).toEqual(await (await second).json());
    expect(made()).toHaveLength(1);
  });

  test("of a call that failed after its tool is refused, and the tool is not called again", async () => {
    answer = afterTool(() => jsonResponse({ error: { message: "x" } }, 500));
    expect((await ask("failed")).status).toBe(503);
    const retried = await ask("failed");
    expect(retried.status).toBe(409);
    expect(retried.headers.get("x-should-retry")).toBe("false");
    expect(await codeOf(retried)).toBe("tools_called");
    expect(made()).toHaveLength(1);
  });

  test("of a call that failed before its tool is made anew", async () => {
    answer = () => jsonResponse({ error: { message: "x" } }, 500);
    expect((await ask("early")).status).toBe(503);
    answer = afterTool(() => jsonResponse(completionOf({ content: "2" })));
    expect((await ask("early")).status).toBe(200);
    expect(made()).toHaveLength(1);
  });

  test("of a call whose client left is answered by it: the loop goes on", async () => {
    const release = Promise.withResolvers<Response>();
    answer = afterTool(() => release.promise);
    const leave = new AbortController();
    const before = upstream.requests.length;
    const first = ask("left", {}, { signal: leave.signal });
    await upstream.received(before + 2);
    leave.abort();
    await first.catch(() => {});
    release.resolve(jsonResponse(completionOf({ content: "2" })));
    expect((await ask("left")).status).toBe(200);
    expect(made()).toHaveLength(1);
  });
});

test("a process that is killed in the loop leaves a call that is not repeated, and its servers end", async () => {
  using own = new TempFolder();
  const data = own.path;
  const file = join(data, "calls");
  const { command, args } = testServer();
  mkdirSync(own.file("personas/house"), { recursive: true });
  writeFileSync(own.file("personas/house/clerk.yaml"), persona);
  const config = {
    personas: own.file("personas"),
    providers: { openrouter: { base_url: upstream.url, api_key: "k" } },
    mcp_servers: { desk: { command, args, env: { CALLS: file } } },
  };
  writeFileSync(own.file("troupe.yaml"), stringify(config));
  const options = { env: { TROUPE_CONFIG: own.file("troupe.yaml") } };
  answer = afterTool(() => new Promise<Response>(() => {}));
  const before = upstream.requests.length;
  const post = ({ url, key }: TroupeProcess, id: string) =>
    fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json", "service-request-id": id },
      body: JSON.stringify(body),
    });
  const first = await TroupeProcess.start(data, upstream.url, options);
  void post(first, "killed").catch(() => {});
  await upstream.received(before + 2);
  expect(existsSync(file)).toBe(true);
  await first.kill();
  await using second = await TroupeProcess.start(data, upstream.url, { ...options, key: first.key });
  const retried = await post(second, "killed");
  expect(retried.status).toBe(409);
  expect(await codeOf(retried)).toBe("tools_called");
  expect(readFileSync(file, "utf8")).toBe('add {"a":1,"b":1}\n');
  answer = afterTool(() => jsonResponse(completionOf({ content: "2" })));
  expect((await post(second, "another")).status).toBe(200);
});
