/**
 * A package for Debian, Ubuntu and their like: the executable, the units, manual pages, completions and pages, where those look for them.
 * Source: https://www.debian.org/doc/debian-policy/ and deb(5)
 */
import { createHash } from "node:crypto";
import { gzipSync } from "node:zlib";
import { type Entry, type Level, tarGz, withFolders } from "./archive.ts";

export type Package = {
  readonly version: string;
  /** As Debian names it: `amd64`, `arm64`. */
  readonly architecture: string;
  readonly seconds: number;
  /** As in the release's own input. */
  readonly releases?: string;
  /** Default: 9. */
  readonly level?: Level;
  readonly executable: Uint8Array;
  /** What goes beside the executable in an archive. */
  readonly beside: readonly Entry[];
};

/** Where entries of an archive go, by how their paths begin; the first that fits. */
const places: readonly (readonly [from: RegExp, to: string])[] = [
  [/^deploy\/(troupe[^/]*\.(?:service|timer))$/, "usr/lib/systemd/system/$1"],
  [/^deploy\/troupe\.example\.yaml$/, "etc/troupe/troupe.yaml"],
  [/^man\/(.+\.(\d))$/, "usr/share/man/man$2/$1.gz"],
  [/^completions\/troupe\.bash$/, "usr/share/bash-completion/completions/troupe"],
  [/^completions\/_troupe$/, "usr/share/zsh/vendor-completions/_troupe"],
  [/^completions\/(troupe\.fish)$/, "usr/share/fish/vendor_completions.d/$1"],
  [/^changelog$/, "usr/share/doc/troupe/changelog.gz"],
  [/^LICENSE$/, "usr/share/doc/troupe/copyright"],
  [/^(deploy\/install\.sh|deploy\/Dockerfile|deploy\/image-root\.sh)$/, ""],
  [/^((?:personas|deploy)\/.+)$/, "usr/share/troupe/$1"],
  [/^(.+)$/, "usr/share/doc/troupe/$1"],
];

/** Where it is found and how it is started, as everything below `/usr/local` says. */
const relocated = /\.(?:service|timer)$/;

const maintainer = "Maintainers of Troupe <maintainers@troupe.invalid>";

/** In Debian's form. Source: deb-changelog(5) */
const changelog = (version: string, seconds: number) =>
  `troupe (${version}) stable; urgency=medium

  * What is new: CHANGELOG.md beside this file.

 -- ${maintainer}  ${new Date(seconds * 1000).toUTCString().replace("GMT", "+0000")}
`;

/** @returns the bytes of the package, which follow from what is given alone */
export function deb({ version, architecture, seconds, releases, level, executable, beside }: Package): Uint8Array {
  const files = [
    { path: "./usr/bin/troupe", bytes: executable, executable: true },
    ...[...beside, entry("changelog", changelog(version, seconds))].flatMap(placed),
  ];
  const kilobytes = Math.ceil(files.reduce((sum, { bytes }) => sum + bytes.length, 0) / 1024);
  const control = `Package: troupe
Version: ${version}
Architecture: ${architecture}
Maintainer: ${maintainer}
Installed-Size: ${kilobytes}
Depends: libc6 (>= 2.17)
Section: net
Priority: optional
${releases === undefined ? "" : `Homepage: ${releases.replace(/\/releases$/, "")}\n`}Description: chat-completion gateway and persona orchestrator
 Clients of OpenAI's, Anthropic's and Google's formats call any provider's
 models through it, and personas, which are files. With API keys, limits,
 budgets and a ledger, safe retries, a console and metrics.
`;
  const sums = files.map(({ path, bytes }) => `${createHash("md5").update(bytes).digest("hex")}  ${path.slice(2)}\n`);
  const scripts = Object.entries(maintainerScripts).map(([name, script]) => ({
    ...entry(name, script),
    executable: true,
  }));
  const parts = [
    entry("control", control),
    entry("conffiles", "/etc/troupe/troupe.yaml\n"),
    entry("md5sums", sums.join("")),
    ...scripts,
  ];
  return ar(
    [
      ["debian-binary", Buffer.from("2.0\n")],
      ["control.tar.gz", tarGz(withFolders(parts.map((part) => ({ ...part, path: `./${part.path}` }))), seconds)],
      ["data.tar.gz", tarGz(withFolders(files), seconds, level)],
    ],
    seconds,
  );
}

/**
 * The service is not started by an installation. An upgrade is one without downtime: the new executable starts beside the one that
 * serves, and that goes on where the new one can't.
 */
const whereSystemdRuns = "[ -d /run/systemd/system ]";
const maintainerScripts = {
  postinst: `#!/bin/sh
set -e
if [ "$1" = configure ] && ${whereSystemdRuns}; then
  systemctl daemon-reload
  if [ -n "$2" ] && systemctl --quiet is-active troupe.service; then
    systemctl kill --kill-who=main --signal=SIGUSR2 troupe.service || true
  fi
fi
`,
  prerm: `#!/bin/sh
set -e
if [ "$1" = remove ] && ${whereSystemdRuns}; then
  systemctl --quiet disable --now troupe-backup.timer troupe.service || true
fi
`,
  postrm: `#!/bin/sh
set -e
if ${whereSystemdRuns}; then systemctl daemon-reload || true; fi
`,
};

function placed({ path, bytes, executable }: Entry): Entry[] {
  const [from, to] = places.find(([pattern]) => pattern.test(path))!;
  if (to === "") return [];
  const target = path.replace(from, to);
  const content = relocated.test(path)
    ? Buffer.from(Buffer.from(bytes).toString().replaceAll("/usr/local/", "/usr/"))
    : bytes;
  const packed = target.endsWith(".gz") ? gzipSync(content, { level: 9 }) : content;
  return [{ path: `./${target}`, bytes: packed, ...(executable === true && { executable }) }];
}

const entry = (path: string, text: string): Entry => ({ path, bytes: Buffer.from(text) });

/** Source: https://man7.org/linux/man-pages/man5/deb.5.html and ar(5) */
function ar(members: readonly (readonly [name: string, bytes: Uint8Array])[], seconds: number): Uint8Array {
  const parts = members.flatMap(([name, bytes]) => [
    Buffer.from(
      `${name.padEnd(16)}${String(seconds).padEnd(12)}0     0     100644  ${String(bytes.length).padEnd(10)}\`\n`,
    ),
    bytes,
    ...(bytes.length % 2 === 1 ? [Buffer.from("\n")] : []),
  ]);
  return Buffer.concat([Buffer.from("!<arch>\n"), ...parts]);
}
