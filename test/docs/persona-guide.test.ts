/** docs/persona-guide.md from its first command to its last, in an empty folder and without a provider. */
import { expect, test } from "bun:test";
import { freePort } from "../helpers/free-port.ts";
import { follow, steady, stepsOf } from "../helpers/page-session.ts";
import { TempFolder } from "../helpers/temp-folder.ts";

const steps = stepsOf("docs/persona-guide.md");

/** What differs from run to run beside what differs on other pages: versions of git, times, durations, and how many calls waiting took. */
const comparable = (text: string) =>
  steady(text)
    .replace(/<day>T\d\d:\d\dZ/g, "<time>")
    .replace(/(<time> <time> .*?) [0-9a-f]{7} \d+ 0 0\.000000 \d\.\d\d s/g, "$1 <commit> <calls>");

test.skipIf(Bun.which("git") === null)("every step of the guide prints what the page says", async () => {
  using folder = new TempFolder();
  const port = freePort();
  const printed = await follow(steps, {
    cwd: folder.path,
    env: { TROUPE_PORT: String(port), HOME: folder.path },
    here: { "127.0.0.1:8080": `127.0.0.1:${port}` },
  });
  expect(steps.length).toBeGreaterThan(10);
  for (const [at, { name, output }] of steps.entries()) {
    expect(printed[at], `${name} ran`).toBeDefined();
    if (output !== undefined) expect(comparable(printed[at]!.replaceAll(folder.path, "/srv"))).toBe(comparable(output));
  }
});
