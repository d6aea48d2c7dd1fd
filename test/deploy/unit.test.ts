import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { $ } from "bun";
import { TempFolder } from "../helpers/temp-folder.ts";

const unit = readFileSync("deploy/troupe.service", "utf8");
const hasSystemd = Bun.which("systemd-analyze") !== null;

/** The exposure that docs/systemd.md tells. */
const exposure = 1.3;

describe.skipIf(!hasSystemd)("deploy/troupe.service", () => {
  const placed = (folder: TempFolder) => {
    const path = folder.file("troupe.service");
    // What it runs must be there.
    writeFileSync(path, unit.replace("/usr/local/bin/troupe", process.execPath));
    return path;
  };

  test("is a unit that systemd has nothing to say about", async () => {
    using folder = new TempFolder();
    const { stdout, stderr, exitCode } = await $`systemd-analyze verify ${placed(folder)}`.nothrow().quiet();
    expect(stdout.toString() + stderr.toString()).toBe("");
    expect(exitCode).toBe(0);
  });

  test("the backup's units, too, and the timer starts the service of its name", async () => {
    using folder = new TempFolder();
    for (const name of ["troupe-backup.service", "troupe-backup.timer"])
      writeFileSync(
        folder.file(name),
        readFileSync(`deploy/${name}`, "utf8").replaceAll("/usr/local/bin/troupe", process.execPath),
      );
    const { stdout, stderr, exitCode } = await $`systemd-analyze verify ${folder.file("troupe-backup.timer")}`
      .nothrow()
      .quiet();
    expect(stdout.toString() + stderr.toString()).toBe("");
    expect(exitCode).toBe(0);
  });

  test("exposes no more than the page says", async () => {
    using folder = new TempFolder();
    const report = await $`systemd-analyze security --offline=true --no-pager ${placed(folder)}`
      .nothrow()
      .quiet()
      .text();
    const [, found] = /Overall exposure level for troupe\.service: ([\d.]+)/.exec(report)!;
    expect(Number(found)).toBeLessThanOrEqual(exposure);
    expect(readFileSync("docs/systemd.md", "utf8")).toContain(`**${exposure}**`);
  });
});

test("the unit names the page where install.sh puts it, which copies docs as a whole", () => {
  const [, page] = /^Documentation=file:\/usr\/local\/share\/doc\/troupe\/(.+)$/m.exec(unit)!;
  expect(page).toStartWith("docs/");
  expect(existsSync(page!)).toBe(true);
});

test("the backup's service hides and keeps what the server's does, by the same user, and has no network", () => {
  const keysOf = (text: string) =>
    text
      .split("\n")
      .filter((line) => /^(?:Protect|Private|Restrict|Lock|System|NoNew|Capab|Device|Dynamic)/.test(line));
  const backup = readFileSync("deploy/troupe-backup.service", "utf8");
  const families = (line: string) => !line.startsWith("RestrictAddressFamilies=");
  expect(keysOf(backup).filter(families)).toEqual(
    expect.arrayContaining(keysOf(unit).filter((line) => families(line))),
  );
  expect(backup).toContain("\nPrivateNetwork=yes\n");
  expect(backup).toContain("\nUser=troupe\nDynamicUser=yes\nStateDirectory=troupe troupe-backup\n");
});

describe("the unit's numbers", () => {
  const value = (key: string) => Number(new RegExp(`^${key}=(\\d+)$`, "m").exec(unit)![1]);

  test("give the drain its time before systemd ends it", () => {
    expect(value("TimeoutStopSec")).toBeGreaterThanOrEqual(30 + 10);
  });

  test("leave out what would cost the JIT", () => {
    expect(unit).not.toMatch(/^MemoryDenyWriteExecute=/m);
  });
});
