import { expect, test } from "bun:test";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { TempFolder } from "../../helpers/temp-folder.ts";
import { Console } from "../console.ts";

const listening = /"message":"listening","addresses":"(http:[^"]+)"/;

test("serve answers until it is told to stop", async () => {
  using folder = new TempFolder();
  const shell = new Console(folder.path);
  const ran = shell.run("--port 0");
  const url = (await shell.seen(listening))[1]!;
  expect(await (await fetch(`${url}/healthz`)).text()).toContain("ok");
  const key = readFileSync(folder.file("data/first-key"), "utf8").trim();
  const models = await fetch(`${url}/v1/models`, { headers: { authorization: `Bearer ${key}` } });
  expect(models.status).toBe(200);
  await models.text();
  shell.signal("SIGTERM");
  const { code, out, err } = await ran;
  expect(code).toBe(0);
  expect(out).toBe("");
  expect(err).not.toContain(key);
});

test("whoever sits there sees the first key once, and a log that can be read", async () => {
  using folder = new TempFolder();
  const shell = new Console(folder.path, {}, true);
  for (const isFirst of [true, false]) {
    const ran = shell.run("--port 0");
    await shell.seen(/ INFO +listening/);
    const key = readFileSync(folder.file("data/first-key"), "utf8").trim();
    shell.signal("SIGTERM");
    const { err } = await ran;
    expect(err.split(key).length - 1).toBe(isFirst ? 1 : 0);
    expect(err.includes(`Your API key: ${key}`)).toBe(isFirst);
  }
});

test("SIGHUP reads the configuration again; an invalid one changes nothing", async () => {
  using folder = new TempFolder();
  const shell = new Console(folder.path);
  writeFileSync(folder.file("troupe.yaml"), "limits: {anonymous_per_minute: 100}\n");
  const ran = shell.run("serve --port 0");
  const url = (await shell.seen(listening))[1]!;
  const limit = async () => {
    const response = await fetch(`${url}/healthz`);
    await response.text();
    return response.headers.get("x-ratelimit-limit");
  };
  expect(await limit()).toBe("100");

  writeFileSync(folder.file("troupe.yaml"), "limits: {anonymous_per_minute: 200}\ntiers: {free: 3}\n");
  shell.signal("SIGHUP");
  await shell.seen(/"message":"configuration reloaded"/);
  expect(await limit()).toBe("200");
  expect(shell.err).toContain('"message":"some changes need a restart","keys":"tiers"');

  writeFileSync(folder.file("troupe.yaml"), "limits: {anonymous_per_minute: many}\n");
  shell.signal("SIGHUP");
  await shell.seen(/the configuration was not reloaded/);
  expect(shell.err).toContain("troupe.yaml:1:32: limits.anonymous_per_minute: must be an integer from 1 to 1000000");
  expect(await limit()).toBe("200");

  shell.signal("SIGTERM");
  expect((await ran).code).toBe(0);
});

test("a changed file is noticed, also one that only the changed configuration names", async () => {
  using folder = new TempFolder();
  writeFileSync(folder.file("secret"), "one");
  writeFileSync(folder.file("troupe.yaml"), "{}\n");
  const shell = new Console(folder.path, { SECRET_FILE: folder.file("secret") });
  const ran = shell.run("serve --port 0");
  await shell.seen(listening);
  const reloaded = (times: number) => shell.seen(new RegExp(`(?:"message":"configuration reloaded"[^]*){${times}}`));

  writeFileSync(folder.file("troupe.yaml"), "providers: {openai: {api_key: '${SECRET}'}}\n");
  await reloaded(1);
  writeFileSync(folder.file("secret"), "two");
  await reloaded(2);
  const changes = [...shell.err.matchAll(/"changed":"([^"]*)"/g)].map(([, changed]) => changed);
  expect(changes).toEqual(["providers.openai", "providers.openai.api_key"]);

  shell.signal("SIGTERM");
  expect((await ran).code).toBe(0);
});

test("an invalid configuration starts nothing", async () => {
  using folder = new TempFolder();
  const { code, err } = await new Console(folder.path).run("serve --port http");
  expect(err).toBe('command line: --port: "http" must be a port from 0 to 65535\n');
  expect(code).toBe(2);
  expect(existsSync(folder.file("data"))).toBe(false);
});

test("serve logs what check calls an error of an alias, at the start and after a reload, and serves on", async () => {
  using folder = new TempFolder();
  writeFileSync(folder.file("troupe.yaml"), "aliases: {a: nobody/x, b: openai/gpt-6, c: builtin/echo}\n");
  const shell = new Console(folder.path);
  const serving = shell.run("serve --port 0");
  await shell.seen(/"an alias leads nowhere yet"/);
  expect(shell.err).toContain(`"an alias leads nowhere","at":"troupe.yaml:1:14: aliases.a: 'nobody/x' is neither`);
  writeFileSync(folder.file("troupe.yaml"), "aliases: {a: troupe/giude}\n");
  shell.signal("SIGHUP");
  await shell.seen(/'troupe\/giude' is neither a persona nor a provider's model; did you mean 'troupe\/guide'/);
  shell.signal("SIGTERM");
  expect((await serving).code).toBe(0);
});
