import { describe, expect, test } from "bun:test";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { TempFolder } from "../../helpers/temp-folder.ts";
import { Console } from "../console.ts";

const unit = "etc/systemd/system/troupe.service";

describe("troupe service", () => {
  test("prints the unit of deploy/, with the program that prints it", async () => {
    using folder = new TempFolder();
    const { code, out } = await new Console(folder.path).run("service print");
    expect(code).toBe(0);
    const shipped = readFileSync("deploy/troupe.service", "utf8");
    expect(shipped).toContain("\nExecStart=/usr/local/bin/troupe serve\n");
    expect(out).toBe(shipped.replaceAll("/usr/local/", "/opt/troupe/"));
  });

  test("prints the program alone where it lies in no folder of programs", async () => {
    using folder = new TempFolder();
    const shell = new Console(folder.path);
    shell.program = ["/opt/bun", "/srv/troupe/src/main.ts"];
    const shipped = readFileSync("deploy/troupe.service", "utf8");
    expect((await shell.run("service print")).out).toBe(
      shipped.replace("=/usr/local/bin/troupe serve", "=/opt/bun /srv/troupe/src/main.ts serve"),
    );
  });

  test("finds the one that a package placed, unless there is another above it", async () => {
    using folder = new TempFolder();
    const shell = new Console(folder.path);
    mkdirSync(folder.file("usr/lib/systemd/system"), { recursive: true });
    writeFileSync(folder.file("usr/lib/systemd/system/troupe.service"), (await shell.run("service print")).out);
    const found = await shell.run("service status --root .");
    expect(found.code).toBe(0);
    expect(found.out).toContain("/usr/lib/systemd/system/troupe.service");
    mkdirSync(folder.file("etc/systemd/system"), { recursive: true });
    writeFileSync(folder.file(unit), "[Unit]\n");
    expect(await shell.run("service status --root .")).toMatchObject({
      code: 1,
      out: expect.stringMatching(/not as this version/),
    });
  });

  test("places it, tells whether it is in place, and removes it", async () => {
    using folder = new TempFolder();
    const shell = new Console(folder.path);
    expect(await shell.run("service status --root .")).toMatchObject({
      code: 1,
      out: expect.stringMatching(/not in place/),
    });
    const installed = await shell.run("service install --root .");
    expect(installed.code).toBe(0);
    expect(installed.out).toContain("systemctl enable --now troupe");
    expect(statSync(folder.file(unit)).mode & 0o777).toBe(0o644);
    expect(readFileSync(folder.file(unit), "utf8")).toBe((await shell.run("service print")).out);
    expect(await shell.run("service status --root .")).toMatchObject({
      code: 0,
      out: expect.stringMatching(/in place$/m),
    });

    writeFileSync(folder.file(unit), "[Unit]\n");
    const changed = await shell.run("service status --root .");
    expect(changed.code).toBe(1);
    expect(changed.out).toContain("not as this version would write it");

    expect((await shell.run("service uninstall --root .")).code).toBe(0);
    expect(existsSync(folder.file(unit))).toBe(false);
    expect(await shell.run("service uninstall --root .")).toMatchObject({
      code: 1,
      err: expect.stringMatching(/There is no/),
    });
  });

  test.each(["/home/a/.local/bin/troupe", "/root/.local/bin/troupe", "/tmp/release/troupe", "closed", "unreadable"])(
    "does not place what the service could not run: %s",
    async (place) => {
      using folder = new TempFolder();
      // Not below /tmp, which is one of the hidden ones.
      const other = mkdtempSync(join(process.cwd(), "node_modules/.service-"));
      const program = join(other, "troupe");
      writeFileSync(program, "");
      chmodSync(program, place === "unreadable" ? 0o700 : 0o755);
      chmodSync(other, place === "closed" ? 0o700 : 0o755);
      const shell = new Console(folder.path);
      shell.program = [place.startsWith("/") ? place : program];
      const { code, err } = await shell.run("service install --root .");
      expect(err).toMatch(
        /^error: \/.*(?:hides from the service|closed to others)\. Install it for all users.*--prefix \/usr\/local/,
      );
      expect(code).toBe(1);
      expect(existsSync(folder.file("etc"))).toBe(false);
      expect(await shell.run("service print")).toMatchObject({ code: 0, err: err.replace("error:", "warning:") });
      rmSync(other, { recursive: true });
    },
  );

  test("says what to do where it may not write", async () => {
    using folder = new TempFolder();
    writeFileSync(folder.file("etc"), "a file in the way");
    const { code, err } = await new Console(folder.path).run("service install --root .");
    expect(code).toBe(1);
    expect(err).toContain("troupe service print");
  });
});
