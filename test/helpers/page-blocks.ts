/** Code blocks of a page of the documentation, so that tests run what it says. */
import { readFileSync } from "node:fs";

export type PageBlock = { readonly section: string; readonly language: string; readonly text: string };

/** @returns the blocks of a Markdown page, each with the heading it stands under */
export function pageBlocks(path: string): PageBlock[] {
  let section = "";
  // A line of a block that begins with "#" is no heading.
  const parts = readFileSync(path, "utf8").matchAll(/^#+ (.*)$|^```(\S*)[^\n]*\n([\s\S]*?)^```$/gm);
  return [...parts].flatMap(([, heading, language, text]) => {
    if (heading !== undefined) section = heading;
    return heading === undefined ? [{ section, language: language!, text: text! }] : [];
  });
}

/** @param holding a text that the block has. @throws Error where the page has no such block */
export function pageBlock(path: string, section: string, language: string, holding = ""): string {
  const found = pageBlocks(path).find(
    (block) => block.section === section && block.language === language && block.text.includes(holding),
  );
  if (found === undefined) throw new Error(`${path} has no ${language} block under ${section}`);
  return found.text;
}
