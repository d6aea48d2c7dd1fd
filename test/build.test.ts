import { expect, test } from "bun:test";
import { chmodSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import manifest from "../package.json" with { type: "json" };
import { longTest } from "./helpers/long-form.ts";
import { TempFolder } from "./helpers/temp-folder.ts";

const root = resolve(import.meta.dir, "..");

test("no script relies on a Bun that is installed", () => {
  for (const [name, script] of Object.entries(manifest.scripts)) {
    for (const command of script.split("&&"))
      expect([name, command.trim()]).toEqual([name, expect.not.stringMatching(/^bunx? /)]);
  }
});

longTest("without Bun, npm run build makes an executable that runs, and nothing beside it", async () => {
  using folder = new TempFolder();
  mkdirSync(folder.file("bin"));
  for (const tool of ["sh", "sed", "dirname", "git"]) symlinkSync(Bun.which(tool)!, folder.file(`bin/${tool}`));
  // As npx does: `npx -y --allow-scripts=bun bun@<version> …`.
  const npx = `#!/bin/sh\n[ "$3" = "bun@${manifest.engines.bun}" ] || exit 9\nshift 3\nexec "${process.execPath}" "$@"\n`;
  writeFileSync(folder.file("bin/npx"), npx);
  chmodSync(folder.file("bin/npx"), 0o755);
  const build = Bun.spawn(["sh", "-c", `${manifest.scripts.build} --outfile=${folder.file("out/troupe")}`], {
    cwd: root,
    env: { PATH: folder.file("bin"), HOME: folder.path, SOURCE_DATE_EPOCH: "1700000000" },
    stdout: "pipe",
    stderr: "pipe",
  });
  const [errors, code] = await Promise.all([build.stderr.text(), build.exited]);
  expect([code, errors]).toEqual([0, expect.not.stringContaining("rror")]);
  expect(readdirSync(folder.file("out"))).toEqual(["troupe"]);
  const { stdout } = Bun.spawnSync([folder.file("out/troupe"), "version"], { env: {} });
  expect(stdout.toString()).toStartWith(`troupe ${manifest.version} (commit `);
});
