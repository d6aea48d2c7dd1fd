/** A client as its user starts it: a process in a folder of its own, with nothing of this machine's but its programs. */
import { writeFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { dirname } from "node:path";
import { TempFolder } from "../helpers/temp-folder.ts";

export type ClientRun = {
  readonly command: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** By the path in the working folder, which is the home folder too. */
  readonly files?: Readonly<Record<string, string>>;
};

/** How long a client may take; agents start slowly on a machine that has other work. */
export const clientSeconds = 120;

/** @returns what it wrote to its standard output @throws Error with all of its output, where it fails or does not end */
export async function runClient({ command, env, files = {} }: ClientRun): Promise<string> {
  using home = new TempFolder();
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(home.file(path)), { recursive: true });
    writeFileSync(home.file(path), text);
  }
  const child = Bun.spawn([...command], {
    cwd: home.path,
    env: { PATH: process.env["PATH"] ?? "", HOME: home.path, NO_COLOR: "1", ...env },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
    timeout: clientSeconds * 1000,
    killSignal: "SIGKILL",
  });
  const [output, errors, exitCode] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  if (exitCode !== 0) throw new Error(`${command[0]} ended with ${exitCode}:\n${output}\n${errors}`.slice(0, 20_000));
  return output;
}
