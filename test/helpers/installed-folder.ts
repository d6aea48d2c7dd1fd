/**
 * Programs and packages of pinned versions that the long form of the suite asks, installed once by the registries' usual clients into
 * a folder of temporary files (or `TROUPE_TEST_PROGRAMS`). What can't be installed, or takes too long, is skipped by name.
 */
import { existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isLongForm } from "./long-form.ts";

const folder = process.env["TROUPE_TEST_PROGRAMS"] ?? join(tmpdir(), "troupe-format-programs");
/** For one program, or for all that fills one folder. */
const installMs = 300_000;
/** Until when the folder that is being filled may take. */
let installUntil: number | undefined;

/** @param command and its arguments @returns what it wrote, or undefined where it failed or is not there */
export function runProgram(
  command: readonly string[],
  { cwd = folder, stdin = "", isShown = false } = {},
): string | undefined {
  if (Bun.which(command[0]!) === null) return undefined;
  const { success, stdout } = Bun.spawnSync([...command], {
    cwd,
    stdin: Buffer.from(stdin),
    stderr: isShown ? "inherit" : "ignore",
    timeout: installUntil === undefined ? installMs : Math.max(1, Math.ceil(installUntil - performance.now())),
    env: { ...process.env, npm_config_loglevel: "silent" },
  });
  return success ? stdout.toString() : undefined;
}

/** Fills a folder once, within five minutes: a half-installed one is never taken for a whole. @returns its path; undefined where that fails */
export function installed(name: string, install: (path: string) => unknown): string | undefined {
  if (!isLongForm) return undefined;
  const path = join(folder, name);
  if (existsSync(path)) return path;
  const unfinished = `${path}.${process.pid}`;
  mkdirSync(unfinished, { recursive: true });
  installUntil = performance.now() + installMs;
  const isWhole = install(unfinished) !== undefined;
  installUntil = undefined;
  try {
    if (isWhole) renameSync(unfinished, path);
  } catch {
    // Another process was faster: its folder is as good.
  }
  rmSync(unfinished, { recursive: true, force: true });
  return isWhole ? path : undefined;
}

/** @param packages as pip takes them @returns a Python of its own that has them; undefined where that fails */
export function pythonWith(name: string, packages: readonly string[]): string | undefined {
  const venv = installed(`${name}-${Bun.hash(JSON.stringify(packages)).toString(36)}`, (path) => {
    if (runProgram(["python3", "-m", "venv", "--copies", path]) === undefined) return undefined;
    return runProgram([join(path, "bin/python"), "-m", "pip", "install", "-q", ...packages]);
  });
  return venv && join(venv, "bin/python");
}
