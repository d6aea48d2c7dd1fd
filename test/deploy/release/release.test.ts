import { describe, expect, test } from "bun:test";
import { createHash, generateKeyPairSync, type KeyObject } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { $ } from "bun";
import { buildExecutable } from "../../../build.ts";
import { makeRelease, targets } from "../../../deploy/release/release.ts";
import { sshPublicKey } from "../../../deploy/release/signature.ts";
import { executableBuild, testExecutable } from "../../helpers/executable.ts";
import { longTest } from "../../helpers/long-form.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";

const checkout = resolve(import.meta.dir, "../../..");
const version = "9.8.7";
const linux = targets.filter(({ name }) => name === "linux-x64");

type ReleaseOptions = { script?: string; mtime?: number; all?: boolean; key?: KeyObject };

/** A release whose executable is a script, which is enough for all that surrounds it. */
async function release(into: string, options: ReleaseOptions = {}) {
  const { script = "#!/bin/sh\necho troupe 9.8.7\n", mtime = 1, all = false } = options;
  return makeRelease({
    folder: checkout,
    into,
    version,
    commit: "abcdef123456",
    bunVersion: "1.4.5",
    seconds: 1_763_719_200,
    level: 0,
    printed: { "completions/troupe.bash": "b\n", "completions/_troupe": "z\n", "completions/troupe.fish": "f\n" },
    targets: all ? targets : linux,
    releases: "https://example.com/releases",
    ...(options.key !== undefined && { key: options.key }),
    build: async () => {
      const path = `${into}.executable`;
      writeFileSync(path, script);
      utimesSync(path, mtime, mtime);
      return path;
    },
  });
}

const sha256 = (path: string) => createHash("sha256").update(readFileSync(path)).digest("hex");

describe("a release", () => {
  test("has every target, the bill of materials, the installer, and the sums of them all", async () => {
    using folder = new TempFolder();
    const made = await release(folder.file("out"), { all: true });
    const names = made.map((path) => basename(path));
    expect(names).toContain("troupe-9.8.7-linux-x64-baseline.tar.gz");
    expect(names).toContain("troupe-9.8.7-linux-arm64-musl.tar.gz");
    expect(names).toContain("troupe-9.8.7-darwin-arm64.tar.gz");
    expect(names).toContain("troupe-9.8.7-windows-x64.zip");
    expect(names.toSorted()).toEqual(readdirSync(folder.file("out")).toSorted());
    expect(names).toContain("troupe_9.8.7_arm64.deb");
    expect(names).toHaveLength(targets.length + targets.filter(({ architecture }) => architecture).length + 3);
    const sums = readFileSync(folder.file("out/SHA256SUMS"), "utf8");
    const expected = made.slice(0, -1).map((path) => `${sha256(path)}  ${basename(path)}`);
    expect(sums.trimEnd().split("\n").toSorted()).toEqual(expected.toSorted());
  });

  test("can be repeated byte for byte, whatever the files' times", async () => {
    using folder = new TempFolder();
    const first = await release(folder.file("first"), { mtime: 1_000_000 });
    const second = await release(folder.file("second"), { mtime: 2_000_000 });
    expect(second.map(sha256)).toEqual(first.map(sha256));
    const other = await release(folder.file("third"), { script: "#!/bin/sh\n" });
    expect(other.map(sha256)).not.toEqual(first.map(sha256));
  });

  test("carries what an operator needs beside the executable", async () => {
    using folder = new TempFolder();
    await release(folder.file("out"));
    const list = await $`tar -tzf ${folder.file("out")}/troupe-9.8.7-linux-x64.tar.gz`.text();
    for (const path of [
      "troupe",
      "LICENSE",
      "THIRD-PARTY-NOTICES.txt",
      "README.md",
      "deploy/troupe.service",
      "deploy/troupe.example.yaml",
      "personas/troupe/guide.yaml",
      "completions/_troupe",
      "man/troupe.1",
      "man/troupe.yaml.5",
      "docs/install.md",
    ])
      expect(list.split("\n")).toContain(`troupe-9.8.7-linux-x64/${path}`);
  });
});

longTest("the executable is the same bytes when built again, and says what it is", async () => {
  using folder = new TempFolder();
  const [first, second] = [await testExecutable(), folder.file("second/troupe")];
  await buildExecutable({ outfile: second, ...executableBuild });
  expect(sha256(second)).toBe(sha256(first));
  const said = await $`${first} version`.text();
  expect(said).toContain(executableBuild.commit);
  expect(said).toContain(executableBuild.builtAt);
});

describe("install.sh", () => {
  test("knows where it was released, and must be told when it was not", async () => {
    using folder = new TempFolder();
    await release(folder.file("out"));
    expect(readFileSync(folder.file("out/install.sh"), "utf8")).toContain("\nreleases=https://example.com/releases\n");
    const done = await install("--prefix", folder.file("opt"), "--target", "linux-x64");
    expect(done.stderr.toString()).toContain("say with --from where the release is");
  });

  const install = (...words: string[]) =>
    $`sh ${join(checkout, "deploy/install.sh")} ${words}`
      .env({ ...process.env, HOME: "/nowhere" })
      .nothrow()
      .quiet();

  test("puts the checked executable and its companions below the prefix, twice as well as once", async () => {
    using folder = new TempFolder();
    await release(folder.file("out"));
    const prefix = folder.file("opt");
    for (let time = 0; time < 2; time += 1) {
      const done = await install("--from", folder.file("out"), "--prefix", prefix, "--target", "linux-x64");
      expect(done.stderr.toString()).toBe("");
      expect(done.exitCode).toBe(0);
      expect(done.stdout.toString()).toContain("troupe 9.8.7\n");
    }
    expect(statSync(`${prefix}/bin/troupe`).mode & 0o777).toBe(0o755);
    for (const path of ["share/troupe/deploy/troupe.service", "share/troupe/personas/troupe/guide.yaml"])
      expect(existsSync(join(prefix, path))).toBe(true);
    expect(readFileSync(`${prefix}/share/bash-completion/completions/troupe`, "utf8")).toBe("b\n");
    expect(existsSync(`${prefix}/share/troupe/deploy/deploy`)).toBe(false);
    expect(readdirSync(`${prefix}/bin`)).toEqual(["troupe"]);
  });

  test("downloads over HTTP", async () => {
    using folder = new TempFolder();
    await release(folder.file("out"));
    using server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: (request) => new Response(Bun.file(folder.file("out") + new URL(request.url).pathname)),
    });
    const from = `http://127.0.0.1:${server.port}`;
    const done = await install("--from", from, "--prefix", folder.file("opt"), "--target", "linux-x64");
    expect(done.stderr.toString()).toBe("");
    expect(existsSync(folder.file("opt/bin/troupe"))).toBe(true);
  });

  test.each([
    {
      what: "an archive that is not the one of the sums",
      break: async (out: string) => writeFileSync(`${out}/troupe-9.8.7-linux-x64.tar.gz`, "something else"),
      says: "nothing was installed",
    },
    {
      what: "sums that name no such target",
      break: async (out: string) => writeFileSync(`${out}/SHA256SUMS`, ""),
      says: "names no archive",
    },
    {
      what: "a missing archive",
      break: async (out: string) => void (await $`rm ${out}/troupe-9.8.7-linux-x64.tar.gz`),
      says: "could not get troupe-9.8.7-linux-x64.tar.gz",
    },
  ])("refuses $what, and leaves nothing behind", async ({ break: breakIt, says }) => {
    using folder = new TempFolder();
    await release(folder.file("out"));
    await breakIt(folder.file("out"));
    mkdirSync(folder.file("opt"));
    const done = await install("--from", folder.file("out"), "--prefix", folder.file("opt"), "--target", "linux-x64");
    expect(done.exitCode).toBe(1);
    expect(done.stderr.toString()).toContain(says);
    expect(readdirSync(folder.file("opt"))).toEqual([]);
  });

  describe.skipIf(Bun.which("ssh-keygen") === null)("of a signed release", () => {
    const { privateKey: key } = generateKeyPairSync("ed25519");
    const { privateKey: other } = generateKeyPairSync("ed25519");
    const from = async (folder: TempFolder, script: string, ...words: string[]) => {
      const given = ["--from", folder.file("out"), "--prefix", folder.file("opt"), "--target", "linux-x64", ...words];
      return $`sh ${script} ${given}`
        .env({ ...process.env, HOME: "/nowhere" })
        .nothrow()
        .quiet();
    };

    test("installs what its own key has signed, and nothing whose sums were changed since", async () => {
      using folder = new TempFolder();
      await release(folder.file("out"), { key });
      expect((await from(folder, folder.file("out/install.sh"))).exitCode).toBe(0);
      await $`echo >> ${folder.file("out/SHA256SUMS")}`;
      const changed = await from(folder, folder.file("out/install.sh"));
      expect(changed.exitCode).toBe(1);
      expect(changed.stderr.toString()).toContain("is not signed by ssh-ed25519 ");
    });

    test("holds a release to the key that it is told, whichever script it is", async () => {
      using folder = new TempFolder();
      await release(folder.file("out"), { key });
      const script = join(checkout, "deploy/install.sh");
      expect((await from(folder, script, "--signer", sshPublicKey(key))).exitCode).toBe(0);
      expect((await from(folder, script, "--signer", sshPublicKey(other))).exitCode).toBe(1);
    });
  });

  test("tells of a wrong option, and of a relative prefix", async () => {
    expect((await install("--prefx", "/x")).stderr.toString()).toContain("unknown option --prefx");
    expect((await install("--prefix", "x")).stderr.toString()).toContain("must be an absolute path");
    expect((await install("--help")).stdout.toString()).toContain("--prefix");
  });
});
