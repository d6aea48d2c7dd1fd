/** The operators' pages, word for word: each command is run, each configuration loaded. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, resolve } from "node:path";

import { makeRelease, targets } from "../../deploy/release/release.ts";
import { loadConfig } from "../../src/config/load.ts";
import { formatDiagnostic } from "../../src/lib/yaml/yaml.ts";
import { providers } from "../../src/providers/registry.ts";
import { testExecutable } from "../helpers/executable.ts";
import { isLongForm } from "../helpers/long-form.ts";
import { TempFolder } from "../helpers/temp-folder.ts";

const pages = [
  "install",
  "systemd",
  "reverse-proxy",
  "upgrade",
  "troubleshooting",
  "tuning",
  "security",
  "observability",
  "releases",
];
const textOf = (page: string) => readFileSync(`docs/${page}.md`, "utf8");

type Block = { readonly page: string; readonly language: string; readonly text: string };

const blocks: readonly Block[] = pages.flatMap((page) =>
  [...textOf(page).matchAll(/^```(\w*)\n([\s\S]*?)^```/gm)].map(([, language, text]) => ({
    page,
    language: language!,
    text: text!,
  })),
);

test("every block is a command or a configuration, so nothing stands unchecked", () => {
  expect(blocks.length).toBeGreaterThan(25);
  // Docker's, which no test machine has (test/deploy/image.test.ts reads them), and what a command prints, which test/cli/doctor has.
  const others = blocks.filter(({ language }) => language !== "sh" && language !== "yaml");
  // Nor a release's key, which test/deploy/release has.
  expect(others.map(({ text }) => text.split(" ")[0])).toEqual(["docker", "$", "echo"]);
});

describe("configurations", () => {
  const pem = readFileSync("test/fixtures/tls/cert.pem", "utf8");

  test.each(blocks.filter(({ language }) => language === "yaml"))("in $page: $text", ({ text }) => {
    const readFile = (path: string) => (path === "troupe.yaml" ? text : path.endsWith(".pem") ? pem : undefined);
    const machine = { cores: 4, sharesPorts: true };
    const loaded = loadConfig({ flags: {}, env: {}, cwd: "/", readFile, machine }, providers);
    expect("errors" in loaded ? loaded.errors.map(formatDiagnostic) : []).toEqual([]);
  });
});

describe("what the pages say of files and numbers", () => {
  test("the unit's, the proxies' and the limits' numbers are those of the files", () => {
    const unit = readFileSync("deploy/troupe.service", "utf8");
    for (const line of ["WatchdogSec=30", "TimeoutStopSec=45", "DynamicUser=yes", "LimitCORE=0", "LimitNOFILE=65536"])
      expect(unit).toContain(`\n${line}\n`);
    const nginx = readFileSync("deploy/nginx.conf", "utf8");
    for (const words of ["proxy_buffering off", "proxy_http_version 1.1", "X-Forwarded-For $remote_addr"]) {
      expect(nginx).toContain(words);
      expect(textOf("reverse-proxy")).toContain(words);
    }
    expect(readFileSync("deploy/Caddyfile", "utf8")).toContain("lb_try_duration");
  });

  test("every target of a release is in the table", () => {
    for (const { name } of targets) expect(textOf("releases")).toContain(`\`${name}\``);
  });
});

const isPossible =
  process.platform === "linux" &&
  process.getuid?.() === 0 &&
  ["unshare", "ip", "chroot", "setsid", "curl"].every((tool) => Bun.which(tool) !== null) &&
  /\boverlay\b/.test(readFileSync("/proc/filesystems", "utf8")) &&
  Bun.spawnSync(["unshare", "--mount", "--net", "--pid", "--fork", "true"]).success;

/** What comes before a page that takes a running service for granted. */
const running = `
mkdir -p /usr/local && sh install.sh --from . --prefix /usr/local
troupe service install
systemctl enable --now troupe
`;

describe.skipIf(!isPossible)("commands, on a bare machine of their own", () => {
  const folder = new TempFolder();
  const target = targets.find(({ name }) => name === (process.arch === "arm64" ? "linux-arm64" : "linux-x64"))!;

  beforeAll(async () => {
    await makeRelease({
      folder: resolve("."),
      into: folder.file("release"),
      version: "0.0.1",
      commit: "abcdef123456",
      bunVersion: "1.4.5",
      seconds: 1_763_719_200,
      targets: [target],
      level: 0,
      printed: { "completions/troupe.bash": "", "completions/_troupe": "", "completions/troupe.fish": "" },
      build: async () => {
        mkdirSync(folder.file("built"));
        copyFileSync(await testExecutable(), folder.file("built/troupe"));
        return folder.file("built/troupe");
      },
    });
  });
  afterAll(() => folder[Symbol.dispose]());

  const withCommands = pages.filter((page) => blocks.some((block) => block.page === page && block.language === "sh"));

  // In the suite those that install; the others go on from there.
  test.concurrent.each(withCommands.filter((page) => isLongForm || ["install", "systemd"].includes(page)))(
    "%s",
    async (page) => {
      const own = blocks.filter((block) => block.page === page && block.language === "sh").map(({ text }) => text);
      // Those that install by themselves begin with nothing, or with the executable alone.
      const before = { install: "", releases: "", systemd: running.split("\n")[1]! }[page] ?? running;
      const machine = folder.file(`machine-${page}`);
      mkdirSync(machine);
      writeFileSync(`${machine}.sh`, `${before}\n${own.join("\n")}`);
      const ran = Bun.spawn(
        [
          ...["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "sh"],
          ...["test/deploy/bare-machine.sh", machine, folder.file("release"), "test/deploy/stand-ins", `${machine}.sh`],
        ],
        {
          env: { PATH: "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", HOME: "/root" },
          stdio: ["ignore", "pipe", "pipe"],
        },
      );
      const [out, err, code] = await Promise.all([
        new Response(ran.stdout).text(),
        new Response(ran.stderr).text(),
        ran.exited,
      ]);
      expect(code, `${out}\n${err}`).toBe(0);
    },
  );

  test("there is a stand-in for every command of systemd that the pages use", () => {
    const standIns = readdirSync(dirname(resolve("test/deploy/stand-ins/systemctl.sh")));
    expect(standIns.toSorted()).toEqual(["journalctl.sh", "systemctl.sh"]);
  });
});
