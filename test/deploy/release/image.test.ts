/** The image of a release: what an engine would read of it, and its root entered with chroot. */
import { describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { $ } from "bun";
import { type ImageInput, ociArchive } from "../../../deploy/release/image.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";

type Descriptor = { mediaType: string; digest: string; size: number; platform?: { architecture: string } };
type Index = { manifests: Descriptor[] };
type Manifest = { config: Descriptor; layers: Descriptor[] };

const dockerfile = readFileSync("deploy/Dockerfile", "utf8");
const script = Buffer.from("#!/bin/sh\n");
const given = (changes: Partial<ImageInput> = {}): ImageInput => ({
  ...{ version: "9.8.7", commit: "abcdef123456", seconds: 1_763_719_200, dockerfile },
  platforms: ["amd64", "arm64"].map((architecture) => ({ architecture, executable: script, libraries: [] })),
  ...changes,
});

async function unpacked(folder: TempFolder, input: ImageInput) {
  writeFileSync(folder.file("image.tar"), ociArchive(input));
  mkdirSync(folder.file("layout"));
  await $`tar -xf ${folder.file("image.tar")} -C ${folder.file("layout")}`.quiet();
  const blob = ({ digest, size }: Descriptor) => {
    const bytes = readFileSync(folder.file(`layout/blobs/sha256/${digest.slice(7)}`));
    expect({ digest: `sha256:${createHash("sha256").update(bytes).digest("hex")}`, size: bytes.length }).toEqual({
      digest,
      size,
    });
    return bytes;
  };
  const read = <T>(one: Descriptor) => JSON.parse(blob(one).toString()) as T;
  const [named] = (JSON.parse(readFileSync(folder.file("layout/index.json"), "utf8")) as Index).manifests;
  return { blob, read, manifests: read<Index>(named!).manifests };
}

test("names a manifest for each architecture, and every blob is what its descriptor says", async () => {
  using folder = new TempFolder();
  const { blob, read, manifests } = await unpacked(folder, given());
  expect(manifests.map(({ platform }) => platform!.architecture)).toEqual(["amd64", "arm64"]);
  for (const one of manifests) {
    const { config, layers } = read<Manifest>(one);
    const { architecture, rootfs } = read<{ architecture: string; rootfs: { diff_ids: string[] } }>(config);
    expect(architecture).toBe(one.platform!.architecture);
    const inside = layers.map((layer) => Bun.gunzipSync(new Uint8Array(blob(layer))));
    const digests = inside.map((bytes) => `sha256:${createHash("sha256").update(bytes).digest("hex")}`);
    expect(digests).toEqual(rootfs.diff_ids);
  }
});

test("is started as the Dockerfile says", async () => {
  using folder = new TempFolder();
  const { read, manifests } = await unpacked(folder, given());
  const { config } = read<{ config: Record<string, unknown> }>(read<Manifest>(manifests[0]!).config);
  expect(config).toMatchObject({
    ...{ User: "65532:65532", WorkingDir: "/data", StopSignal: "SIGTERM", Volumes: { "/data": {} } },
    ...{ ExposedPorts: { "8080/tcp": {} }, Entrypoint: ["/usr/local/bin/troupe"], Cmd: ["serve"] },
    Healthcheck: { Test: ["CMD", "/usr/local/bin/troupe", "health"], Interval: 30e9, Timeout: 5e9, StartPeriod: 5e9 },
  });
  expect(config["Env"]).toContain("TROUPE_LISTEN=0.0.0.0:8080");
});

test("is the same bytes for the same content, and others for another time", () => {
  expect(ociArchive(given())).toEqual(ociArchive(given()));
  expect(ociArchive(given({ seconds: 1_763_719_260 }))).not.toEqual(ociArchive(given()));
});

test.skipIf(Bun.which("skopeo") === null)("skopeo reads it, each architecture by itself", async () => {
  using folder = new TempFolder();
  writeFileSync(folder.file("image.tar"), ociArchive(given()));
  for (const architecture of ["amd64", "arm64"]) {
    const said =
      await $`skopeo --override-arch ${architecture} inspect oci-archive:${folder.file("image.tar")}:9.8.7`.json();
    expect(said).toMatchObject({ Architecture: architecture, Labels: { "org.opencontainers.image.version": "9.8.7" } });
  }
});

const canEnter = process.platform === "linux" && process.getuid?.() === 0 && Bun.which("chroot") !== null;

describe.skipIf(!canEnter)("its root", () => {
  test("is all that the executable needs, and its data folder its user's", async () => {
    using folder = new TempFolder();
    // A small program with this machine's libraries, as the release takes Debian's.
    const executable = Bun.which("env")!;
    const linked = [...(await $`ldd ${executable}`.text()).matchAll(/(\/\S+) \(0x/g)].map(([, path]) => path!);
    const libraries = linked.map((path) => ({ path: path.slice(1), bytes: readFileSync(path), executable: true }));
    const platforms = [{ architecture: "amd64", executable: readFileSync(executable), libraries }];
    const { blob, read, manifests } = await unpacked(folder, given({ platforms }));
    mkdirSync(folder.file("root"));
    writeFileSync(folder.file("layer.tar.gz"), blob(read<Manifest>(manifests[0]!).layers[0]!));
    await $`tar -xzf ${folder.file("layer.tar.gz")} -C ${folder.file("root")}`.quiet();
    const said = await $`chroot --userspec=65532:65532 ${folder.file("root")} /usr/local/bin/troupe A=1`
      .env({ PATH: process.env["PATH"]! })
      .text();
    expect(said).toContain("A=1\n");
    const { mode, uid, gid } = statSync(folder.file("root/data"));
    expect([mode & 0o777, uid, gid]).toEqual([0o700, 65532, 65532]);
  });
});
