/** Reads the recordings beside a test file. */
import { readFileSync } from "node:fs";
import { parseRecordings, type Recording } from "../../personas/suites/recording.ts";

/** @returns by `recordingKey`; or why the file can't be read */
export function readRecording(path: string): ReadonlyMap<string, Recording> | string {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return new Map();
    return `${path} can't be read: ${(error as Error).message}`;
  }
  const parsed = parseRecordings(text, path);
  if ("recordings" in parsed) return parsed.recordings;
  const [first] = parsed.errors;
  return `${path}:${first!.line}:${first!.column}: ${first!.path} ${first!.message}; record it anew.`;
}
