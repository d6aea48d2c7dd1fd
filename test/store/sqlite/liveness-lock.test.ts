import { describe, expect, test } from "bun:test";
import { readdirSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { StorageError } from "../../../src/store/contract/storage-error.ts";
import { LivenessLock } from "../../../src/store/sqlite/liveness-lock.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";

const source = resolve(import.meta.dir, "../../../src/store/sqlite/liveness-lock.ts");

/** A process that enters the folder, says its id, and stays. */
async function startOther(folder: string) {
  const script = `const { LivenessLock } = await import(${JSON.stringify(source)});
    const livenessLock = new LivenessLock(${JSON.stringify(folder)});
    console.log(livenessLock.id); setInterval(() => livenessLock.id, 1000);`;
  const child = Bun.spawn([process.execPath, "-e", script], { stdout: "pipe" });
  const { value } = await child.stdout.getReader().read();
  const kill = async () => {
    child.kill("SIGKILL");
    await child.exited;
  };
  return { child, id: new TextDecoder().decode(value).trim(), kill, [Symbol.asyncDispose]: kill };
}

describe("livenessLock", () => {
  test("a process is alive until it leaves", () => {
    using folder = new TempFolder();
    const one = new LivenessLock(folder.path);
    const two = new LivenessLock(folder.path);
    expect([one.isAlive(one.id), one.isAlive(two.id), two.isAlive(one.id)]).toEqual([true, true, true]);
    expect(one.others()).toEqual([two.id]);
    two.release();
    expect([one.isAlive(two.id), one.others()]).toEqual([false, []]);
    expect(one.isAlive("never-was")).toBe(false);
    one.release();
    expect(readdirSync(folder.file("running"))).toEqual([]);
  });

  test("or until it is killed; looking at it any number of times does not loosen its hold", async () => {
    using folder = new TempFolder();
    const here = new LivenessLock(folder.path);
    await using other = await startOther(folder.path);
    for (let at = 0; at < 20; at += 1) expect(here.isAlive(other.id)).toBe(true);
    expect(here.others()).toEqual([other.id]);
    await other.kill();
    expect(readdirSync(folder.file("running"))).toContain(`${other.id}.lock`);
    expect(here.isAlive(other.id)).toBe(false);
    expect(here.others()).toEqual([]);
    expect(readdirSync(folder.file("running"))).toEqual([`${here.id}.lock`]);
    here.release();
  });

  test("a stopped process is alive: it may go on at any time", async () => {
    using folder = new TempFolder();
    const here = new LivenessLock(folder.path);
    await using other = await startOther(folder.path);
    other.child.kill("SIGSTOP");
    expect(here.isAlive(other.id)).toBe(true);
    await other.kill();
    expect(here.isAlive(other.id)).toBe(false);
    here.release();
  });

  test("a folder that can't be used is a storage error", () => {
    using folder = new TempFolder();
    writeFileSync(folder.file("running"), "");
    expect(() => new LivenessLock(folder.path)).toThrow(StorageError);
  });
});
