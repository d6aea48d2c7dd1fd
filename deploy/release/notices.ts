/** The licences of the packages that are inside the executable, as those ask to be handed on with every copy. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type Locked, licenceOf, packageFolder, packagesInside } from "./sbom.ts";

/** As packages name them: LICENSE, LICENCE.md, license-mit, COPYING, NOTICE. */
const noticeFile = /^(licen[cs]e|copying|notice)/i;

/**
 * @param folder the checkout, with node_modules installed
 * @returns each package with the texts of its own files; packages with the very same texts stand together
 * @throws when a package is not installed or names no licence
 */
export function notices(folder: string): string {
  const byText = Map.groupBy(packagesInside(readFileSync(join(folder, "bun.lock"), "utf8")), (one) =>
    textsOf(folder, one),
  );
  const parts = [...byText].map(([text, packages]) => {
    const names = packages.map((one) => `${one.name} ${one.version}, ${licenceOf(folder, one)}`);
    return `${names.join("\n")}\n\n${text}`;
  });
  const head =
    "Troupe's executable holds these packages. Bun, the runtime, lists what it holds at https://github.com/oven-sh/bun/blob/main/LICENSE.md\n";
  return [head, ...parts].join(`\n${"-".repeat(80)}\n\n`);
}

function textsOf(folder: string, one: Locked): string {
  const inside = join(folder, packageFolder(one));
  const names = readdirSync(inside)
    .filter((name) => noticeFile.test(name))
    .toSorted();
  const texts = names.map((name) => `${readFileSync(join(inside, name), "utf8").replaceAll("\r", "").trim()}\n`);
  return texts.length === 0 ? "The package holds no text of its licence.\n" : texts.join("\n");
}
