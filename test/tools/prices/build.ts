/**
 * Writes the price list that is compiled in, and prints what differs from the one before, with the sources:
 *
 *     bun test/tools/prices/build.ts             of the packages' versions in packages.json
 *     bun test/tools/prices/build.ts --newest    of their newest ones
 *
 * What does not pass by itself keeps the price it had, is said, and makes the exit code 3: a person looks it up, and decides in
 * decided.ts. It needs Python 3.11 with pip.
 */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type PriceChange, parsePriceList, priceChanges } from "../../../src/facts/prices/list-format.ts";
import type { ListedPricesOf } from "../../../src/facts/prices/listed.ts";
import { added, corrected, gone, passed, wanted } from "./decided.ts";
import { guard } from "./guard.ts";
import { type Family, merge, type Note } from "./merge.ts";
import { sheetOf } from "./sheet.ts";

type Package = { readonly version: string; readonly released: string };
type Read = {
  readonly packages: Readonly<Record<string, Package>>;
  readonly genai: readonly unknown[];
  readonly litellm: Family;
  readonly "models.dev": Family;
};

const here = import.meta.dir;
const root = join(here, "../../..");
const priceListPath = join(root, "src/facts/prices/list.txt");
const sheetPath = join(root, "test/fixtures/prices/agreed.json");

/** The list's names of providers that we name otherwise. */
const listNames: Readonly<Record<string, string>> = {
  ...{ xai: "x-ai", moonshot: "moonshotai", vertex: "google", bedrock: "aws" },
};

const nameOf = (provider: string) => listNames[provider] ?? provider;

/** @returns genai-prices' rows for our providers, with what was decided in place of some */
function baseOf({ packages, genai }: Read): ListedPricesOf {
  const days = Object.values(packages).map(({ released }) => released);
  const asOf = days.toSorted().at(-1)!;
  const { providers } = parsePriceList(JSON.stringify(genai), asOf, asOf);
  const kept = wanted.map((id) => {
    const found = providers.find((one) => one.id === id);
    if (found === undefined) throw new Error(`genai-prices has no provider ${id}`);
    const own = corrected[id] ?? [];
    const listed = found.models.filter(
      (one) => !gone.has(`${id}/${one.id}`) && !own.some((mine) => mine.id === one.id),
    );
    return { ...found, models: [...own, ...listed] };
  });
  const more = Object.entries(added).map(([id, api]) => ({ id, api, fallbacks: [], models: [] }));
  return { as_of: asOf, providers: [...kept, ...more] };
}

/** Texts that name models: personas and docs. */
function textsIn(folder: string): string {
  return readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.(?:ya?ml|md)$/.test(entry.name))
    .map(({ parentPath, name }) => readFileSync(join(parentPath, name), "utf8"))
    .join("\n");
}

const words = ({ model, what, words: text }: Note) => `  ${model}: ${what}: ${text}\n`;

function changeWords({ model, change, prices }: PriceChange): string {
  const parts = Object.entries(prices).map(([kind, { before, after }]) => {
    const text = [before, after].map((one) => (one === undefined ? "none" : JSON.stringify(one)));
    return change === "changed" ? `${kind} ${text.join(" → ")}` : `${kind} ${change === "added" ? text[1] : text[0]}`;
  });
  return `  ${model}: ${change}: ${parts.join(", ") || "other conditions"}\n`;
}

/** Writes the day and the versions into the pages that name them. */
function writePages(packages: Read["packages"], asOf: string): void {
  const write = (page: string, changed: (text: string) => string) => {
    const path = join(root, "docs", page);
    writeFileSync(path, changed(readFileSync(path, "utf8")));
  };
  write("costs.md", (text) => text.replace(/ of \d{4}-\d\d-\d\d (?=\(MIT)/, ` of ${asOf} `));
  write("third-party.md", (text) =>
    Object.entries(packages).reduce((page, [name, { version, released }]) => {
      const named = new RegExp(`(\\[${name}\\]\\(\\S+\\)) \\S+, of \\d{4}-\\d\\d-\\d\\d`);
      return page.replace(named, `$1 ${version}, of ${released}`);
    }, text),
  );
}

async function main(): Promise<number> {
  const args = process.argv.includes("--newest") ? ["--newest"] : [];
  const { stdout, exitCode } = Bun.spawnSync(["python3", join(here, "read.py"), join(here, "packages.json"), ...args], {
    stderr: "inherit",
  });
  if (exitCode !== 0) return exitCode;
  const read = JSON.parse(stdout.toString()) as Read;
  const base = baseOf(read);
  const now = Date.parse(`${base.as_of}T12:00:00Z`);
  const before = JSON.parse(readFileSync(priceListPath, "utf8")) as ListedPricesOf;
  const { list, notes } = merge(base, [read.litellm, read["models.dev"]], nameOf, now);
  const named = `${textsIn("personas")}\n${textsIn("docs")}`;
  const { list: guarded, kept } = guard(before, list, { now, named, passed });
  const out = process.stdout;
  for (const [name, { version, released }] of Object.entries(read.packages))
    out.write(`${name} ${version}, ${released}\n`);
  const changes = priceChanges(before, guarded, now);
  out.write(`\n${changes.length} models differ from the list before:\n${changes.map(changeWords).join("")}`);
  for (const [what, title] of titles) {
    const found = notes.filter((one) => one.what === what);
    out.write(`\n${found.length} ${title}:\n${found.map(words).join("")}`);
  }
  out.write(
    `\n${kept.length} kept as they were, until decided.ts says otherwise:\n${kept.map((one) => `  ${one}\n`).join("")}`,
  );
  writePages(read.packages, base.as_of);
  const sources = Object.entries(read.packages).map(([name, one]) => ({ name, ...one }));
  const text = `${JSON.stringify({ as_of: guarded.as_of, sources, providers: guarded.providers })}\n`;
  parsePriceList(text, base.as_of);
  await Bun.write(priceListPath, text);
  const genai = parsePriceList(JSON.stringify(read.genai), base.as_of, base.as_of);
  const sheet = sheetOf(genai, [read.litellm, read["models.dev"]], nameOf, now);
  await Bun.write(sheetPath, `${JSON.stringify({ as_of: base.as_of, prices: sheet }, null, 1)}\n`);
  return kept.length === 0 ? 0 : 3;
}

const titles = [
  ["added", "models that genai-prices lacks, and both others price alike"],
  ["corrected", "prices of genai-prices that both others have otherwise, and alike"],
  ["dissent", "prices that one of the others has otherwise, which are left"],
] as const;

if (import.meta.main) process.exitCode = await main();
