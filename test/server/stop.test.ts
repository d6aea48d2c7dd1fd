import { expect, test } from "bun:test";
import { Console } from "../cli/console.ts";
import { TempFolder } from "../helpers/temp-folder.ts";

test("a signal that comes while a server starts lets it drain once it can", async () => {
  using folder = new TempFolder();
  const shell = new Console(folder.path);
  const serving = shell.run("serve --port 0");
  await shell.listens("SIGTERM");
  expect(shell.err).not.toContain('"listening"');
  shell.signal("SIGTERM");
  const { code, err } = await serving;
  expect(code).toBe(0);
  expect(err).toMatch(/"draining: requests under way may finish".*\n.*"stopped"/);
});

test("a second one ends it at once", async () => {
  using folder = new TempFolder();
  const shell = new Console(folder.path);
  const serving = shell.run("serve --port 0");
  await shell.listens("SIGTERM");
  shell.signal("SIGTERM");
  shell.signal("SIGINT");
  expect((await serving).code).toBe(130);
});
