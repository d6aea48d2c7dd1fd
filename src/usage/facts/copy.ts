/**
 * Facts that were taken, as a node keeps them in its data folder: a start and commands read them there, without the store or a network. The
 * store says which count. The file has a line that says what it is, one of the models' facts and one of the prices; the prices are read when
 * a call needs one.
 */
import { createHash } from "node:crypto";
import { readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { buildInfo } from "../../build-info.ts";
import { type Bundle, readBundle } from "../../facts/bundle.ts";
import type { FactsFile } from "../../facts/file.ts";
import { compiledAsOf, goBackToCompiled, inForce, putInForce, type Renewed } from "../../facts/in-force.ts";
import { writePrivately } from "../../lib/files/write-privately.ts";
import { isObject, objectOf, parseJson, textOf } from "../../lib/json/json.ts";

export const factsCopyPath = (data: string): string => join(data, "facts.json");

/** The two parts of a file of facts that was checked, as texts. */
export type FactsParts = { readonly models: string; readonly prices: string };

export const factsPartsOf = ({ models, prices }: Pick<Bundle, "models" | "prices">): FactsParts => ({
  models: JSON.stringify(models),
  prices: JSON.stringify(prices),
});

const sumOf = ({ models, prices }: FactsParts) =>
  createHash("sha256").update(models).update("\n").update(prices).digest("hex");

/** Which program checked it: another may know other behaviours. */
const checkedBy = `${buildInfo.version} ${buildInfo.commit}`;

/**
 * @param isForced true if they count though the executable's are newer
 * @throws the file system's errors
 */
export function writeCopy(data: string, renewed: Renewed, parts: FactsParts, isForced: boolean): void {
  const { sha256, asOf, source } = renewed;
  const head = {
    source,
    as_of: asOf,
    sha256,
    sum: sumOf(parts),
    checked_by: checkedBy,
    ...(isForced && { forced: true }),
  };
  // Several processes of a node may write it at once.
  const own = `${factsCopyPath(data)}.${crypto.randomUUID()}`;
  writePrivately(own, `${JSON.stringify(head)}\n${parts.models}\n${parts.prices}`);
  renameSync(own, factsCopyPath(data));
}

export const removeCopy = (data: string): void => rmSync(factsCopyPath(data), { force: true });

type Copy = Renewed & FactsParts & { readonly isForced: boolean; readonly isChecked: boolean };

/** @returns words where there is one that does not count; undefined where there is none */
function readCopy(data: string): Copy | string | undefined {
  const path = factsCopyPath(data);
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    return `${path} can't be read: ${(error as Error).message}`;
  }
  const [first = "", models = "", prices = ""] = text.split("\n", 3);
  const head = objectOf(parseJson(first));
  const [sha256, asOf, source] = ["sha256", "as_of", "source"].map((name) => textOf(head?.[name]));
  if (sha256 === undefined || asOf === undefined || source === undefined || head?.["sum"] !== sumOf({ models, prices }))
    return `${path} is damaged: 'troupe facts update' takes facts anew`;
  const [isForced, isChecked] = [head["forced"] === true, head["checked_by"] === checkedBy];
  return { sha256, asOf, source, models, prices, isForced, isChecked };
}

/**
 * Has the node's copy count in this process, where there is one and it is not older than the executable's facts.
 * @param today as YYYY-MM-DD
 * @returns why one that is there does not count
 */
export function useCopy(data: string, today: string = new Date().toISOString().slice(0, 10)): string | undefined {
  const copy = readCopy(data);
  if (copy === undefined || typeof copy === "string" || (copy.asOf < compiledAsOf && !copy.isForced)) {
    goBackToCompiled();
    return typeof copy === "string" ? copy : undefined;
  }
  if (copy.sha256 === inForce().renewed?.sha256) return undefined;
  const { sha256, asOf, source, isForced } = copy;
  try {
    const models = parseJson(copy.models);
    const parts = copy.isChecked ? copy : checkedAnew(copy, today);
    if (!copy.isChecked) writeCopy(data, copy, parts, isForced);
    if (!isObject(models)) throw new Error("no JSON");
    putInForce({ sha256, asOf, source }, models as unknown as FactsFile, parts.prices);
    return undefined;
  } catch (error) {
    goBackToCompiled();
    return `${factsCopyPath(data)} does not fit this program: ${(error as Error).message}`;
  }
}

/** @throws FactsError */
function checkedAnew({ models, prices, asOf }: Copy, today: string): FactsParts {
  const text = `{"schema":1,"as_of":"${asOf}","models":${models},"prices":${prices}}`;
  return factsPartsOf(readBundle(new TextEncoder().encode(text), "facts.json", today));
}
