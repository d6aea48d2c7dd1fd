import { describe, expect, test } from "bun:test";
import { Console } from "./console.ts";

const scriptFor = async (shell: string) => (await new Console(import.meta.dir).run(["completion", shell])).out;

/** What bash itself offers for a line whose last word is unfinished. */
async function offered(line: string): Promise<string[]> {
  const words = line.split(" ");
  const script = `${await scriptFor("bash")}
COMP_WORDS=(${words.map((word) => `'${word}'`).join(" ")})
COMP_CWORD=${words.length - 1}
_troupe
printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { stdout, exitCode } = Bun.spawnSync(["bash", "-c", script]);
  expect(exitCode).toBe(0);
  return stdout
    .toString()
    .split("\n")
    .filter((word) => word !== "");
}

describe("in bash", () => {
  test.each([
    ["troupe keys r", ["revoke", "rotate"]],
    ["troupe keys create --p", ["--per-minute"]],
    ["troupe p", ["prices", "personas"]],
    ["troupe --p", ["--port", "--personas"]],
    [
      "troupe --config x.yaml config ",
      [
        "print",
        "schema",
        "init",
        "help",
        "--config",
        "--host",
        "--port",
        "--data",
        "--personas",
        "--workers",
        "--help",
      ],
    ],
    ["troupe check --j", ["--json"]],
    ["troupe keys list x", []],
  ])("%p is completed", async (line, words) => {
    expect(await offered(line)).toEqual(words);
  });
});

test("in fish, each command and flag stands with its summary, at its place", async () => {
  const lines = (await scriptFor("fish")).trimEnd().split("\n");
  const revoke = lines.find((line) => line.includes(" -a revoke "));
  expect(revoke).toMatch(
    /^complete -c troupe -n '__fish_seen_subcommand_from keys; and not __fish_seen_subcommand_from create [a-z ]+ help' -f -a revoke -d 'Revoke a key, from the next request on'$/,
  );
  const place = "complete -c troupe -n '__fish_seen_subcommand_from keys; and __fish_seen_subcommand_from create'";
  expect(lines).toContain(`${place} -l tier -d 'Its plan'`);
  expect(lines).toContain(
    `${place} -l models -d 'Models and personas it may use, e.g. \\'openai/*,anthropic/claude-*\\' (default: all)'`,
  );
});

test("in zsh, each place lists its words with their summaries", async () => {
  const script = await scriptFor("zsh");
  expect(script).toStartWith("#compdef troupe\n");
  expect(script).toContain("'revoke:Revoke a key, from the next request on'");
  expect(script).toContain(`"/keys/create") commands=(); flags=('--tier:Its plan' `);
  expect(script).toContain(
    `'--models:Models and personas it may use, e.g. '\\''openai/*,anthropic/claude-*'\\'' (default\\: all)'`,
  );
});
