/** docs/first-hour.md from its first command to its last, against a process of its own. */
import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { completionOf } from "../helpers/chat-upstream.ts";
import { freePort } from "../helpers/free-port.ts";
import { follow, steady, stepsOf } from "../helpers/page-session.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";

const canProxy = Bun.which("caddy") !== null;
const steps = stepsOf("docs/first-hour.md").filter(({ text }) => canProxy || !text.includes("caddy "));

test("every step of the first hour prints what the page says", async () => {
  using folder = new TempFolder();
  using ollama = new UpstreamServer(() =>
    jsonResponse(
      completionOf({ content: "Hello to you!" }, "stop", { prompt_tokens: 26, completion_tokens: 4, total_tokens: 30 }),
    ),
  );
  const [port, proxy] = [freePort(), freePort()];
  writeFileSync(folder.file(".curlrc"), `resolve = "troupe.example.com:${proxy}:127.0.0.1"\n`);
  const printed = await follow(steps, {
    cwd: folder.path,
    env: {
      TROUPE_PORT: String(port),
      CURL_HOME: folder.path,
      HOME: folder.path,
      CADDY_ADMIN: `unix/${folder.file("caddy.sock")}`,
    },
    here: {
      "127.0.0.1:8080": `127.0.0.1:${port}`,
      // A line is there half a second after its call: somebody who types takes longer.
      "troupe usage --by key": "until troupe usage --by key | grep -q alice; do :; done; troupe usage --by key",
      "http://127.0.0.1:11434/v1": ollama.url,
      "troupe.example.com {": `http://troupe.example.com:${proxy} {`,
      "https://troupe.example.com": `http://troupe.example.com:${proxy}`,
    },
  });
  const said = (text: string) =>
    steady(
      text
        .replaceAll(folder.path, "/srv/troupe")
        .replaceAll(String(port), "8080")
        .replaceAll(ollama.url, "http://127.0.0.1:11434/v1"),
    );
  for (const [at, { name, output }] of steps.entries()) {
    expect(printed[at], `${name} ran`).toBeDefined();
    if (output !== undefined) expect(said(printed[at]!)).toBe(steady(output));
  }
});
