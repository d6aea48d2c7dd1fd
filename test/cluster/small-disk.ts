/** A disk of a few megabytes that a database of a test's server lives on, and that can be filled. */
import { mkdirSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import type { PostgresServer } from "../helpers/postgres.ts";

export class SmallDisk implements Disposable {
  /** Of a database that is to live on it. */
  readonly tablespace: string;
  readonly #path: string;

  private constructor(path: string, tablespace: string) {
    this.#path = path;
    this.tablespace = tablespace;
  }

  /** @returns undefined where this user can't mount one */
  static make(server: PostgresServer): SmallDisk | undefined {
    const path = server.folder.file("disk");
    mkdirSync(path);
    if (Bun.which("mount") === null) return undefined;
    if (Bun.spawnSync(["mount", "-t", "tmpfs", "-o", "size=256m", "none", path]).exitCode !== 0) return undefined;
    const tablespace = `${path}/space`;
    mkdirSync(tablespace);
    server.own(tablespace);
    return new SmallDisk(path, tablespace);
  }

  /** @returns what makes room again */
  fill(): () => void {
    const ballast = `${this.#path}/ballast`;
    const { bavail, bsize } = statfsSync(this.#path);
    try {
      writeFileSync(ballast, Buffer.alloc(bavail * bsize));
    } catch (error) {
      // The server took some of it meanwhile.
      if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
    }
    return () => rmSync(ballast);
  }

  [Symbol.dispose](): void {
    Bun.spawnSync(["umount", "-l", this.#path]);
  }
}
