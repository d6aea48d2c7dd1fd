/** Chooses among the sections that were found for a question, within a persona's bounds, and writes them as the model reads them. */
import { beginningOf, type FoundSection } from "../../lib/text/sections.ts";
import { bytesOfTokens, estimateTokens } from "../../lib/text/token-estimate.ts";
import type { Knowledge } from "./schema.ts";

/** More are looked up than are taken, as some may not fit. */
export const candidatesOf = ({ sections }: Knowledge): number => sections * 2 + 4;

const head = "<knowledge>\n";
const tail = "</knowledge>";

/**
 * Takes the best that fit, one after the other, so that a long one does not keep shorter ones out. The best of all is cut at the end of
 * a line where it alone is too long.
 * @param found the best first
 */
export function chooseSections(found: readonly FoundSection[], { tokens, sections }: Knowledge): FoundSection[] {
  const chosen: FoundSection[] = [];
  let room = bytesOfTokens(tokens) - Buffer.byteLength(head + tail);
  const take = (section: FoundSection) => {
    chosen.push(section);
    room -= Buffer.byteLength(written(section));
  };
  for (const section of found) {
    if (chosen.length === sections) break;
    if (Buffer.byteLength(written(section)) <= room) take(section);
  }
  const [best] = found;
  if (chosen.length > 0 || best === undefined) return chosen;
  const cut = beginning(best, room);
  return cut === undefined ? [] : [cut];
}

function beginning(section: FoundSection, room: number): FoundSection | undefined {
  const text = beginningOf(section.text, room - Buffer.byteLength(written({ ...section, text: "…\n" })));
  const end = Math.max(text.lastIndexOf("\n"), text.lastIndexOf(" "));
  const kept = (end > 0 ? text.slice(0, end) : text).trimEnd();
  if (kept === "") return undefined;
  const lines = kept.split("\n").length;
  return { ...section, lastLine: Math.min(section.lastLine, section.firstLine + lines - 1), text: `${kept}\n…` };
}

/** @returns the text that stands before the question; "" for no sections */
export const writeSections = (sections: readonly FoundSection[]): string =>
  sections.length === 0 ? "" : `${head}${sections.map(written).join("")}${tail}`;

/** @returns the same text in pieces, one for each section */
export const piecesOf = (sections: readonly FoundSection[]): string[] =>
  sections.map((section, at) => (at === 0 ? head : "") + written(section) + (at === sections.length - 1 ? tail : ""));

export const sectionTokens = (sections: readonly FoundSection[]): number => estimateTokens(writeSections(sections));

/** Sections are written more than once for a call, and those that are kept for more than one. */
const texts = new WeakMap<FoundSection, string>();

function written(section: FoundSection): string {
  const known = texts.get(section);
  if (known !== undefined) return known;
  const text = write(section);
  texts.set(section, text);
  return text;
}

function write({ file, heading, firstLine, lastLine, text }: FoundSection): string {
  const title = heading === "" ? "" : ` heading="${inQuotes(heading)}"`;
  return `<section source="${inQuotes(file)}"${title} lines="${firstLine}-${lastLine}">\n${text}\n</section>\n`;
}

const inQuotes = (text: string): string => text.replaceAll("&", "&amp;").replaceAll('"', "&quot;").replace(/\s+/g, " ");
