import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { TempFolder } from "../helpers/temp-folder.ts";
import { UpstreamServer } from "../helpers/upstream-server.ts";
import { Console } from "./console.ts";

test("a server that is told an endpoint sends what it did before it ends", async () => {
  using folder = new TempFolder();
  using collector = new UpstreamServer(() => new Response("{}"));
  const shell = new Console(folder.path, {
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
  });
  const ran = shell.run("--port 0");
  const url = (await shell.seen(/"addresses":"(http:[^"]+)"/))[1]!;
  const answer = await fetch(`${url}/gateway/v1/chat/completions`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${readFileSync(folder.file("data/first-key"), "utf8").trim()}`,
      "content-type": "application/json",
    },
    body: JSON.stringify({ model: "builtin/echo", messages: [{ role: "user", content: "a private matter" }] }),
  });
  await answer.text();
  shell.signal("SIGTERM");
  expect((await ran).code).toBe(0);
  const sent = collector.requests.map(({ path, text }) => `${path} ${text}`).join("\n");
  expect(sent).toContain(answer.headers.get("x-request-id")!);
  expect(sent).toContain('"name":"http.server.request.duration"');
  expect(sent).not.toContain("a private matter");
});

test("a variable that can't be understood stops the start, by name", async () => {
  using folder = new TempFolder();
  const { code, err } = await new Console(folder.path, { OTEL_EXPORTER_OTLP_ENDPOINT: "collector:4318" }).run(
    "--port 0",
  );
  expect(code).toBe(1);
  expect(err).toBe("error: environment: OTEL_EXPORTER_OTLP_ENDPOINT must be an http(s) URL\n");
});
