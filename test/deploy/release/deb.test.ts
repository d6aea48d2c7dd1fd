/** The package for Debian, as its own tools read it; test/deploy/docs.test.ts installs one on a bare machine. */
import { describe, expect, test } from "bun:test";
import { chmodSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { $ } from "bun";
import { deb } from "../../../deploy/release/deb.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";

const file = (path: string, text = readFileSync(path, "utf8")) => ({ path, bytes: Buffer.from(text) });
const beside = [
  ...["LICENSE", "CHANGELOG.md", "docs/upgrade.md", "personas/troupe/guide.yaml", "deploy/install.sh"].map((path) =>
    file(path),
  ),
  ...["troupe.example.yaml", "troupe.service", "troupe-backup.service", "troupe-backup.timer"].map((name) =>
    file(`deploy/${name}`),
  ),
  file("man/troupe.1", ".TH TROUPE 1\n"),
  file("completions/_troupe", "z\n"),
];
const made = (seconds = 1_763_719_200) =>
  deb({
    version: "9.8.7",
    architecture: "amd64",
    seconds,
    executable: Buffer.from("#!/bin/sh\necho troupe\n"),
    beside,
  });

describe.skipIf(Bun.which("dpkg-deb") === null)("the package", () => {
  async function unpacked(folder: TempFolder) {
    writeFileSync(folder.file("a.deb"), made());
    await $`dpkg-deb --raw-extract ${folder.file("a.deb")} ${folder.file("root")}`.quiet();
    return (path: string) => folder.file(`root/${path}`);
  }

  test("says what it is", async () => {
    using folder = new TempFolder();
    writeFileSync(folder.file("a.deb"), made());
    const said = await $`dpkg-deb --field ${folder.file("a.deb")} Package Version Architecture Depends`.text();
    expect(said).toBe("Package: troupe\nVersion: 9.8.7\nArchitecture: amd64\nDepends: libc6 (>= 2.17)\n");
  });

  test("has each thing where Debian's programs look for it, with its modes and sums", async () => {
    using folder = new TempFolder();
    const at = await unpacked(folder);
    expect(statSync(at("usr/bin/troupe")).mode & 0o777).toBe(0o755);
    for (const path of [
      "etc/troupe/troupe.yaml",
      "usr/lib/systemd/system/troupe-backup.timer",
      "usr/share/doc/troupe/copyright",
      "usr/share/doc/troupe/changelog.gz",
      "usr/share/doc/troupe/docs/upgrade.md",
      "usr/share/man/man1/troupe.1.gz",
      "usr/share/troupe/personas/troupe/guide.yaml",
      "usr/share/zsh/vendor-completions/_troupe",
    ])
      expect(statSync(at(path)).mode & 0o777, path).toBe(0o644);
    expect(readFileSync(at("DEBIAN/conffiles"), "utf8")).toBe("/etc/troupe/troupe.yaml\n");
    await $`md5sum --check --quiet DEBIAN/md5sums`.cwd(folder.file("root")).quiet();
    const files = await $`dpkg-deb --contents ${folder.file("a.deb")}`.text();
    expect(files).not.toContain("install.sh");
    expect(files.split("\n").filter((line) => line !== "" && !/ root\/root .* \.\//.test(line))).toEqual([]);
  });

  test("its units start its own program, and are else those of deploy/", async () => {
    using folder = new TempFolder();
    const at = await unpacked(folder);
    for (const name of ["troupe.service", "troupe-backup.service", "troupe-backup.timer"]) {
      const unit = readFileSync(at(`usr/lib/systemd/system/${name}`), "utf8");
      expect(unit).toBe(readFileSync(`deploy/${name}`, "utf8").replaceAll("/usr/local/", "/usr/"));
      if (name !== "troupe-backup.timer") expect(unit).toContain("/usr/bin/troupe ");
    }
  });

  /** Runs a script of the package where `systemctl` is one that notes what it was asked. */
  async function asked(script: string, isActive: boolean, ...words: string[]) {
    using folder = new TempFolder();
    const at = await unpacked(folder);
    mkdirSync(folder.file("bin"));
    writeFileSync(
      folder.file("bin/systemctl"),
      `#!/bin/sh\necho "$*" >>${folder.file("asked")}\ncase "$*" in *is-active*) exit ${isActive ? 0 : 3} ;; esac\n`,
    );
    chmodSync(folder.file("bin/systemctl"), 0o755);
    writeFileSync(folder.file("asked"), "");
    const text = readFileSync(at(`DEBIAN/${script}`), "utf8").replaceAll("/run/systemd/system", folder.path);
    const env = { PATH: `${folder.file("bin")}:${process.env["PATH"]}` };
    await $`sh -s ${words} < ${Buffer.from(text)}`.env(env).quiet();
    return readFileSync(folder.file("asked"), "utf8").split("\n").slice(0, -1);
  }

  test("starts nothing when it is installed, and hands over without downtime when a running one is upgraded", async () => {
    expect(await asked("postinst", false, "configure", "")).toEqual(["daemon-reload"]);
    const active = "--quiet is-active troupe.service";
    expect(await asked("postinst", false, "configure", "9.8.6")).toEqual(["daemon-reload", active]);
    const handOver = "kill --kill-who=main --signal=SIGUSR2 troupe.service";
    expect(await asked("postinst", true, "configure", "9.8.6")).toEqual(["daemon-reload", active, handOver]);
  });

  test("stops what runs when it is removed, and not when it is replaced", async () => {
    const stop = "--quiet disable --now troupe-backup.timer troupe.service";
    expect(await asked("prerm", true, "remove")).toEqual([stop]);
    expect(await asked("prerm", true, "upgrade", "9.8.8")).toEqual([]);
    expect(await asked("postrm", true, "purge")).toEqual(["daemon-reload"]);
  });
});

test("is the same bytes for the same content and time, and others for another time", () => {
  expect(made()).toEqual(made());
  expect(made(1_763_719_260)).not.toEqual(made());
});
