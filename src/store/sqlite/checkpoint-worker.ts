/** The thread that moves a write-ahead log into its database. Its first message names the database's file. */
import { Database } from "bun:sqlite";

declare const self: Worker;

/** Then it ends, and gives back its memory. */
const idleMs = 60_000;

let database: Database | undefined;
let idle: Timer | undefined;

self.onmessage = ({ data }: MessageEvent<{ readonly path: string } | "checkpoint" | "end">) => {
  if (data === "end") return end();
  if (data !== "checkpoint") {
    database = new Database(data.path, { readwrite: true });
    return;
  }
  clearTimeout(idle);
  idle = setTimeout(end, idleMs);
  try {
    // Pages that others still read stay for the next time.
    database!.run("pragma wal_checkpoint(passive)");
  } catch {
    // A full disk, perhaps: the next time may be better, and writes report it.
  }
  postMessage("done");
};

function end(): void {
  database?.close();
  process.exit(0);
}
