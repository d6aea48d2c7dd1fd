/**
 * The image of a release for several architectures, as one archive of an OCI layout, made without an engine: the executable, the C library, and
 * nothing else. How it is started stands in deploy/Dockerfile, which makes the same for one's own machine.
 * Source: https://github.com/opencontainers/image-spec/blob/v1.1.1/image-layout.md
 */
import { createHash } from "node:crypto";
import { gzipSync } from "node:zlib";
import { type Entry, tar, withFolders } from "./archive.ts";

export type Platform = {
  /** As OCI names it: `amd64`, `arm64`. */
  readonly architecture: string;
  readonly executable: Uint8Array;
  /** The C library, by the paths at which its loader looks for it. */
  readonly libraries: readonly Entry[];
};

export type ImageInput = {
  readonly version: string;
  readonly commit: string;
  readonly seconds: number;
  /** The text of deploy/Dockerfile. */
  readonly dockerfile: string;
  readonly platforms: readonly Platform[];
};

/** Of the user in the image, which has no name elsewhere. */
const user = 65532;

/** @returns the archive, whose bytes follow from what is given alone */
export function ociArchive({ version, commit, seconds, dockerfile, platforms }: ImageInput): Uint8Array {
  const blobs: Entry[] = [];
  const blob = (mediaType: string, content: Uint8Array) => {
    const digest = sha256(content);
    blobs.push({ path: `blobs/sha256/${digest}`, bytes: content });
    return { mediaType, digest: `sha256:${digest}`, size: content.length };
  };
  const json = (value: unknown) => Buffer.from(JSON.stringify(value));
  const kind = (name: string) => `application/vnd.oci.image.${name}.v1`;
  const created = new Date(seconds * 1000).toISOString();
  const labels = {
    "org.opencontainers.image.title": "troupe",
    "org.opencontainers.image.version": version,
    "org.opencontainers.image.revision": commit,
    "org.opencontainers.image.created": created,
    "org.opencontainers.image.licenses": "MIT",
  };
  const manifests = platforms.map(({ architecture, ...files }) => {
    const layer = tar(rootOf(files), seconds);
    const config = {
      ...{ created, architecture, os: "linux", config: { ...startOf(dockerfile), Labels: labels } },
      rootfs: { type: "layers", diff_ids: [`sha256:${sha256(layer)}`] },
      history: [{ created, created_by: `troupe ${version}` }],
    };
    const manifest = {
      ...{
        schemaVersion: 2,
        mediaType: `${kind("manifest")}+json`,
        config: blob(`${kind("config")}+json`, json(config)),
      },
      layers: [blob(`${kind("layer")}.tar+gzip`, gzipSync(layer, { level: 9 }))],
      annotations: labels,
    };
    return { ...blob(manifest.mediaType, json(manifest)), platform: { architecture, os: "linux" } };
  });
  const index = { schemaVersion: 2, mediaType: `${kind("index")}+json` };
  const whole = blob(index.mediaType, json({ ...index, manifests, annotations: labels }));
  const named = { ...whole, annotations: { "org.opencontainers.image.ref.name": version } };
  return tar(
    withFolders([
      { path: "oci-layout", bytes: json({ imageLayoutVersion: "1.0.0" }) },
      { path: "index.json", bytes: json({ ...index, manifests: [named] }) },
      ...new Map(blobs.map((one) => [one.path, one])).values(),
    ]),
    seconds,
  );
}

const sha256 = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");

/** What deploy/image-root.sh lays out. */
const rootOf = ({ executable, libraries }: Omit<Platform, "architecture">): Entry[] =>
  withFolders([
    ...libraries,
    { path: "usr/local/bin/troupe", bytes: executable, executable: true },
    { path: "etc/passwd", bytes: Buffer.from(`troupe:x:${user}:${user}::/data:/sbin/nologin\n`) },
    { path: "etc/troupe/", bytes: new Uint8Array() },
    { path: "data/", bytes: new Uint8Array(), mode: 0o700, owner: user },
  ]);

/** How the last stage of the Dockerfile says that it is started, in the words of an image's configuration. */
function startOf(dockerfile: string) {
  const word = (name: string) => new RegExp(`^${name} (.+)$`, "m").exec(dockerfile)![1]!;
  const list = (name: string) => JSON.parse(word(name)) as string[];
  const [, interval, timeout, start, test] =
    /^HEALTHCHECK --interval=(\d+)s --timeout=(\d+)s --start-period=(\d+)s CMD (.+)$/m.exec(dockerfile)!;
  const nanoseconds = (seconds: string | undefined) => Number(seconds) * 1e9;
  return {
    User: word("USER"),
    ExposedPorts: { [`${word("EXPOSE")}/tcp`]: {} },
    Env: ["PATH=/usr/local/bin", ...word("ENV").split(" ")],
    Entrypoint: list("ENTRYPOINT"),
    Cmd: list("CMD"),
    Volumes: { [word("VOLUME")]: {} },
    WorkingDir: word("WORKDIR"),
    StopSignal: word("STOPSIGNAL"),
    // Docker's addition, which other engines pass over.
    Healthcheck: {
      ...{ Test: ["CMD", ...(JSON.parse(test!) as string[])], Interval: nanoseconds(interval) },
      ...{ Timeout: nanoseconds(timeout), StartPeriod: nanoseconds(start) },
    },
  };
}
