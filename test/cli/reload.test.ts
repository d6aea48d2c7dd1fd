import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Console } from "./console.ts";

test("a changed file is taken over by itself, and the log says what changed without the secret", async () => {
  using folder = new TempFolder();
  const key = folder.file("openai-key");
  writeFileSync(key, "first-secret-value\n");
  const shell = new Console(folder.path, { OPENAI_API_KEY_FILE: key });
  const ran = shell.run("--port 0");
  await shell.seen(/"message":"listening"/);
  writeFileSync(key, "second-secret-value\n");
  await shell.seen(/"message":"configuration reloaded","changed":"providers.openai.api_key"/);
  writeFileSync(folder.file("troupe.yaml"), "limits: {json_depth: 32}\nstreams: {keep_alive_seconds: 5}\n");
  await shell.seen(/"changed":"limits.json_depth, streams.keep_alive_seconds"/);
  writeFileSync(folder.file("troupe.yaml"), "limits: {json_depth: deep}\n");
  await shell.seen(/the configuration was not reloaded; the one in force stays/);
  shell.signal("SIGTERM");
  const { code, err } = await ran;
  expect(code).toBe(0);
  expect(err).not.toContain("secret-value");
  expect(err).toContain("troupe.yaml:1:");
});
