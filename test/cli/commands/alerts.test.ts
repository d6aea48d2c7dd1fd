import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { TempFolder } from "../../helpers/temp-folder.ts";
import { UpstreamServer } from "../../helpers/upstream-server.ts";
import { Console } from "../console.ts";

const secret = "sixteen letters or more";

test("troupe alerts test sends a signed message to each address, and fails where one does not take it", async () => {
  using folder = new TempFolder();
  let status = 204;
  using receiver = new UpstreamServer(({ path }) => new Response(null, { status: path === "/b?t=1" ? status : 200 }));
  writeFileSync(
    folder.file("troupe.yaml"),
    JSON.stringify({ alerts: { url: [`${receiver.url}/a`, `${receiver.url}/b?t=1`], secret } }),
  );
  const shell = new Console(folder.path);
  expect(await shell.run("alerts test")).toEqual({
    code: 0,
    out: `${receiver.url}: delivered\n${receiver.url}: delivered\n`,
    err: "",
  });
  expect(receiver.last.headers.get("webhook-signature")).toMatch(/^v1,[A-Za-z0-9+/]{43}=$/);
  expect(receiver.last.json).toMatchObject({ type: "alerts.test", data: {} });
  status = 302;
  const failed = await shell.run("alerts test");
  expect(failed).toMatchObject({
    code: 1,
    out: expect.stringContaining("not delivered: it answered with the status 302"),
  });
  const { out } = await shell.run("config print");
  expect(out).toContain(`${receiver.url}/***`);
  expect(out).not.toContain(secret);
});

test("an address that nobody listens at, and a configuration without alerts, are told", async () => {
  using folder = new TempFolder();
  const shell = new Console(folder.path, {
    TROUPE_ALERTS_URL: "http://127.0.0.1:1/hook",
    TROUPE_ALERTS_SECRET: secret,
  });
  expect(await shell.run("alerts test")).toMatchObject({
    code: 1,
    out: expect.stringContaining("http://127.0.0.1:1: not delivered: it can't be reached"),
  });
  expect(await new Console(folder.path).run("alerts test")).toMatchObject({
    code: 1,
    err: expect.stringContaining("The configuration has no 'alerts'"),
  });
});

test.each([
  [{ url: "ftp://x", secret }, "alerts.url: must begin with https:// or http://"],
  [{ url: ["https://x", "y"], secret }, "alerts.url[1]: must begin with https:// or http://"],
  [{ url: "https://x" }, "alerts.secret: is required"],
  [{ url: "https://x", secret: "whsec_***********" }, "alerts.secret: must have base64 behind whsec_"],
  [{ url: "https://x", secret: "short" }, "alerts.secret: must have at least 16 characters"],
])("%j is refused", async (alerts, message) => {
  using folder = new TempFolder();
  writeFileSync(folder.file("troupe.yaml"), JSON.stringify({ alerts }));
  expect(await new Console(folder.path).run("alerts test")).toMatchObject({
    code: 1,
    err: expect.stringContaining(message),
  });
});

test("one of both variables alone is refused", async () => {
  using folder = new TempFolder();
  const shell = new Console(folder.path, { TROUPE_ALERTS_SECRET: secret });
  expect(await shell.run("alerts test")).toMatchObject({ code: 1, err: expect.stringContaining("alerts.url") });
});
