/** Lines that were typed into chats, for the arrow keys: in the user's folder of states. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { writePrivately } from "../../lib/files/write-privately.ts";
import type { Io } from "../../lib/process/io.ts";

/** The most lines that are kept. */
export const historySize = 1000;
/** Longer lines are pasted texts, which nobody looks for by the arrow keys. */
const maxLine = 4000;

export class ChatHistory {
  readonly #io: Pick<Io, "readFile">;
  readonly #folder: string | undefined;

  /** Source: https://specifications.freedesktop.org/basedir-spec/latest/ */
  constructor(io: Pick<Io, "readFile" | "env">) {
    const { XDG_STATE_HOME: states, HOME: home } = io.env;
    // A relative path is invalid there.
    const base = states?.startsWith("/") ? states : home && join(home, ".local/state");
    this.#io = io;
    this.#folder = base ? join(base, "troupe") : undefined;
  }

  /** The newest first. */
  read(): string[] {
    if (this.#folder === undefined) return [];
    try {
      const lines = this.#io.readFile(join(this.#folder, "chat-history"))?.split("\n") ?? [];
      return lines.filter((line) => line !== "").toReversed();
    } catch {
      return [];
    }
  }

  /** @param lines the newest first. A chat goes on where they can't be written. */
  write(lines: readonly string[]): void {
    if (this.#folder === undefined) return;
    const kept = lines.filter((line) => line.trim() !== "" && line.length <= maxLine).slice(0, historySize);
    try {
      mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
      writePrivately(
        join(this.#folder, "chat-history"),
        kept
          .toReversed()
          .map((line) => `${line}\n`)
          .join(""),
      );
    } catch {
      // The folder may be read-only.
    }
  }
}
