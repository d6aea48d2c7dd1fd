/** No engine runs here, so the image's root is laid out by its own script and entered with chroot, by what the file says. */
import { expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { $ } from "bun";
import { testExecutable } from "../helpers/executable.ts";
import { pageBlock } from "../helpers/page-blocks.ts";
import { TempFolder } from "../helpers/temp-folder.ts";

const file = readFileSync("deploy/Dockerfile", "utf8");
const word = (name: string) => new RegExp(`^${name} (.+)$`, "m").exec(file)![1]!;
const list = (text: string) => JSON.parse(/\[.*\]/.exec(text)![0]) as string[];
const canEnter = process.platform === "linux" && process.getuid?.() === 0 && Bun.which("chroot") !== null;

test("the last stage holds nothing but the layout, and nobody in it is root", () => {
  const last = file.slice(file.lastIndexOf("\nFROM "));
  expect(last).toStartWith("\nFROM scratch\nCOPY --from=layout /image /\nUSER 65532:65532\n");
  expect(last).not.toContain("\nRUN ");
});

test("the page's commands are for this image", () => {
  const [build, run, exec] = pageBlock("docs/install.md", "In a container", "text").trim().split("\n");
  expect(build).toContain("-f deploy/Dockerfile -t troupe .");
  expect(run).toContain(`:${word("EXPOSE")} -v troupe:${word("VOLUME")} `);
  expect(exec).toContain(` ${list(word("ENTRYPOINT"))[0]} `);
});

test.skipIf(!canEnter)("the executable starts in it as that user, answers, is found healthy, and stops", async () => {
  using folder = new TempFolder();
  const executable = await testExecutable();
  const root = folder.file("image");
  await $`sh deploy/image-root.sh ${executable} ${root}`;
  expect(readdirSync(root).toSorted()).toContain("data");
  expect(existsSync(`${root}/bin/sh`)).toBe(false);

  // The engine gives it these file systems; its address is one that is free.
  const probe = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response() });
  const { port } = probe;
  await probe.stop(true);
  const given = word("ENV")
    .split(" ")
    .map((pair) => pair.split("="));
  const env = { ...Object.fromEntries(given), TROUPE_LISTEN: `127.0.0.1:${port}` };
  const enter = (command: readonly string[]) => [
    ...[
      "unshare",
      "--mount",
      "sh",
      "-c",
      `mkdir -p ${root}/proc && mount -t proc proc ${root}/proc && exec "$@"`,
      "sh",
    ],
    ...["chroot", `--userspec=${word("USER")}`, root, ...command],
  ];
  const entry = list(word("ENTRYPOINT"));
  const running = Bun.spawn(enter([...entry, ...list(word("CMD"))]), {
    env: { PATH: process.env["PATH"]!, ...env },
    stdio: ["ignore", "ignore", "pipe"],
  });
  const log = new Response(running.stderr).text();
  const health = list(/HEALTHCHECK .*CMD (\[.*\])/.exec(file)![1]!);
  const isHealthy = () =>
    Bun.spawnSync(enter(health), { env: { PATH: process.env["PATH"]!, ...env } }).stdout.toString();
  while (running.exitCode === null && isHealthy() !== "ok\n") await Bun.sleep(50);
  expect(isHealthy()).toBe("ok\n");
  const key = readFileSync(`${root}/data/first-key`, "utf8").trim();
  const models = await fetch(`http://127.0.0.1:${port}/v1/models`, { headers: { authorization: `Bearer ${key}` } });
  expect(models.status).toBe(200);
  await models.text();
  running.kill("SIGTERM");
  expect(await running.exited).toBe(0);
  expect(await log).toContain('"message":"stopped"');
  expect(isHealthy()).not.toBe("ok\n");
});
