/** Reads facts where they are published: a pointer, then the file that it names, both signed, within bounds. */

import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { isAddress } from "../../config/address-errors.ts";
import { FactsError, maxBundleBytes } from "../../facts/bundle.ts";
import { isSigned, readPointer } from "../../facts/signed.ts";
import { boundedBody } from "../../lib/http/bounded-body.ts";
import { printable } from "../../lib/text/printable.ts";
import { sha256Of } from "../../lib/text/sha256.ts";

/** A pointer is some hundred bytes. */
const maxPointerBytes = 64 * 1024;
/** For both files together. */
const usualMs = 5_000;

/** A file that was proved to be what a key of this program has signed. @property source its address or path */
export type Published = {
  readonly bytes: Uint8Array;
  readonly sha256: string;
  readonly asOf: string;
  readonly source: string;
};

type FetchSettings = {
  /** Public keys of the build. */
  readonly keys: readonly string[];
  /** Unix milliseconds. */
  readonly now: number;
  /** The file that is known already, which is not read again. */
  readonly known?: string | undefined;
  readonly signal?: AbortSignal;
  /** Default: 5 s. */
  readonly withinMs?: number;
};

/** Said where the build was given none. */
const noKey =
  "this program was built without a public key, so it takes facts only as files that are carried by hand, with their hash: troupe facts update --from <file> --sha256 <hash>";

/**
 * @param from the address or path of a pointer, or of the folder that it lies in
 * @returns undefined where it names the file that is known
 * @throws FactsError in words that name the place
 */
export async function readPublished(from: string, settings: FetchSettings): Promise<Published | undefined> {
  const { keys, now, known, withinMs = usualMs } = settings;
  if (keys.length === 0) throw new FactsError(noKey);
  const deadline = AbortSignal.timeout(withinMs);
  const signal = settings.signal === undefined ? deadline : AbortSignal.any([settings.signal, deadline]);
  const place = pointerAt(from);
  const pointer = await readPointer(await readPlace(place, maxPointerBytes, signal), printable(place), keys, now);
  const { file, bytes: size, signature, as_of: asOf } = pointer;
  const sha256 = file.slice("facts-".length, -".json".length);
  if (sha256 === known) return undefined;
  const source = besides(place, file);
  const bytes = await readPlace(source, Math.min(size, maxBundleBytes), signal);
  if (bytes.length !== size)
    throw new FactsError(`${printable(source)}: it is cut off: ${bytes.length} bytes of ${size}`);
  if (sha256Of(bytes) !== sha256)
    throw new FactsError(`${printable(source)}: it is not what its name says: its SHA-256 differs`);
  if (!(await isSigned(bytes, signature, keys)))
    throw new FactsError(`${printable(source)}: it is not signed by a key that this program knows`);
  return { bytes, sha256, asOf, source };
}

function pointerAt(from: string): string {
  if (isAddress(from)) return new URL(from).pathname.endsWith(".json") ? from : `${from.replace(/\/$/, "")}/facts.json`;
  return from.endsWith(".json") && !isFolder(from) ? from : join(from, "facts.json");
}

const isFolder = (path: string) => statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;

const besides = (place: string, file: string): string =>
  isAddress(place) ? new URL(file, place).href : join(place, "..", file);

/** @throws FactsError */
export async function readPlace(place: string, maxBytes: number, signal: AbortSignal): Promise<Uint8Array> {
  const name = printable(place);
  try {
    if (isAddress(place)) return await fetchBytes(place, name, maxBytes, signal);
    const bytes = readFileSync(place);
    if (bytes.length > maxBytes) throw tooLarge(name, maxBytes);
    return bytes;
  } catch (error) {
    if (error instanceof FactsError) throw error;
    if ((error as NodeJS.ErrnoException).code === "ENOENT") throw new FactsError(`There is no file ${name}`);
    if (signal.aborted && (signal.reason as Error | undefined)?.name === "TimeoutError")
      throw new FactsError(`${name} did not answer in time`);
    throw new FactsError(`${name} can't be read: ${(error as Error).message}`);
  }
}

const tooLarge = (name: string, maxBytes: number) => new FactsError(`${name} has more than ${maxBytes} bytes`);

/** By `fetch`, which goes through a forward proxy where HTTPS_PROXY names one. */
async function fetchBytes(url: string, name: string, maxBytes: number, signal: AbortSignal): Promise<Uint8Array> {
  const answer = await fetch(url, { redirect: "manual", headers: { accept: "application/json" }, signal });
  if (answer.status >= 300 && answer.status < 400) {
    const to = printable((answer.headers.get("location") ?? "nowhere").slice(0, 200));
    throw new FactsError(`${name} redirects to ${to}: name the address that answers itself`);
  }
  if (!answer.ok) throw new FactsError(`${name} answers with the status ${answer.status}`);
  const bytes = await boundedBody(answer, maxBytes);
  if (bytes === undefined) throw tooLarge(name, maxBytes);
  return bytes;
}
