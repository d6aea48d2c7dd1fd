/**
 * The text that a file's bytes stand for: by its byte order mark, the charset that it declares, or what only one charset can look like.
 * Labels are those of https://encoding.spec.whatwg.org/#names-and-labels.
 */
import { isUtf8 } from "node:buffer";
import { ownMember } from "../json/own-member.ts";
import { truncate } from "./truncate.ts";

/** Why bytes are no text, as the end of a sentence that begins with their place. */
export class UnreadableText extends Error {
  override readonly name = "UnreadableText";
}

/** Labels of other tools: Python's codecs, and Windows' code pages. Source: https://docs.python.org/3/library/codecs.html#standard-encodings */
const otherLabels: Readonly<Record<string, string>> = {
  ...{ "latin-1": "latin1", latin_1: "latin1", iso8859_1: "latin1", iso8859_15: "iso-8859-15" },
  ...{ utf_8: "utf-8", utf_8_sig: "utf-8", "utf-8-sig": "utf-8", utf_16: "utf-16", utf_16_le: "utf-16le" },
  ...{ utf_16_be: "utf-16be", cp932: "shift_jis", cp936: "gbk", cp949: "euc-kr", cp950: "big5" },
};
/** Said by tools that did not look: https://www.rfc-editor.org/rfc/rfc2397#section-2 gives it to whatever has no charset. */
const saysNothing = new Set(["", "us-ascii", "ascii", "binary", "unknown-8bit"]);

/** Bytes of a file's beginning that are looked at. Source: https://html.spec.whatwg.org/#prescan-a-byte-stream-to-determine-its-encoding */
const headBytes = 1024;
const declaration =
  /^\s*<\?xml\s[^>]*?\bencoding\s*=\s*["']([\w.:-]{1,40})|<meta\s[^>]*?\bcharset\s*=\s*["']?\s*([\w.:-]{1,40})/i;

/**
 * @param charset as a media type's parameter names it
 * @throws UnreadableText where it does not hold what it says, or nothing shows what it is
 */
export function readableText(bytes: Buffer, charset?: string): string {
  const byMark = markOf(bytes);
  if (byMark !== undefined) return decoded(bytes, byMark, `has the byte order mark of ${byMark}, and is none`);
  const label = charset?.trim().toLowerCase() ?? "";
  if (!saysNothing.has(label)) return asDeclared(bytes, label);
  const wide = wideOrder(bytes);
  if (wide !== undefined) return decoded(bytes, wide, `looks like ${wide}, and is none`);
  if (isUtf8(bytes)) return bytes.toString("utf8");
  const within = declaredWithin(bytes);
  if (within !== undefined && !isUnicode.test(within)) return asDeclared(bytes, within);
  return western(bytes);
}

/** The text's charset, as it says itself, is now UTF-8. */
export const declaredAsUtf8 = (text: string): string => {
  const label = declarationIn(text.slice(0, headBytes));
  return label === undefined ? text : text.replace(label.all, `${label.all.slice(0, -label.name.length)}utf-8`);
};

function declarationIn(head: string): { readonly all: string; readonly name: string } | undefined {
  const found = declaration.exec(head);
  const name = found?.[1] ?? found?.[2];
  return name === undefined ? undefined : { all: found![0], name };
}

const declaredWithin = (bytes: Buffer) =>
  declarationIn(bytes.toString("latin1", 0, headBytes))?.name.toLowerCase() || undefined;

/** What was read as bytes of ASCII is none of these. */
const isUnicode = /^utf/;

function markOf(bytes: Buffer): string | undefined {
  const head = bytes.toString("latin1", 0, 4);
  if (head === "\xff\xfe\0\0" || head === "\0\0\xfe\xff") throw new UnreadableText("is UTF-32; send UTF-8");
  if (head.startsWith("\xef\xbb\xbf")) return "utf-8";
  if (head.startsWith("\xff\xfe")) return "utf-16le";
  return head.startsWith("\xfe\xff") ? "utf-16be" : undefined;
}

function asDeclared(bytes: Buffer, label: string): string {
  const name = ownMember(otherLabels, label) ?? label;
  // Without a mark it is said to be the one, and often is the other.
  const order = name === "utf-16" ? (wideOrder(bytes) ?? name) : name;
  return decoded(bytes, order, `is no text of the charset '${truncate(label, 40)}' that it declares`);
}

function decoded(bytes: Buffer, label: string, otherwise: string): string {
  let decoder: InstanceType<typeof TextDecoder>;
  try {
    decoder = new TextDecoder(label as "utf-8", { fatal: true });
  } catch {
    throw new UnreadableText(`declares the charset '${truncate(label, 40)}', which is not known here; send UTF-8`);
  }
  try {
    return decoder.decode(bytes);
  } catch {
    throw new UnreadableText(otherwise);
  }
}

/** @returns UTF-16 without a mark, of which half the bytes of most languages' spaces, digits and letters are 0 */
function wideOrder(bytes: Buffer): "utf-16le" | "utf-16be" | undefined {
  const end = Math.min(bytes.length, headBytes) & ~1;
  let first = 0;
  let second = 0;
  for (let at = 0; at < end; at += 2) {
    if (bytes[at] === 0) first += 1;
    if (bytes[at + 1] === 0) second += 1;
  }
  const enough = end / 8;
  if (second > enough && first === 0) return "utf-16le";
  return first > enough && second === 0 ? "utf-16be" : undefined;
}

/** Characters of no text, and bytes that windows-1252 has no character for. */
const noText = /[\0-\x08\x0e-\x1a\x1c-\x1f\x7f\x81\x8d\x8f\x90\x9d]/;
/** Letters of other alphabets stand in rows, or where this one has signs within words: the Polish ą is its ±. */
const otherAlphabet = /[\x80-\xff]{3}|[a-z][\xa3\xa6\xb1\xb3\xb6\xb9\xbc\xbe\xbf][a-z]/;

/** What Western Windows and ISO-8859-1 write: single letters and signs among those of ASCII. */
function western(bytes: Buffer): string {
  const text = bytes.toString("latin1");
  if (noText.test(text)) throw new UnreadableText("is no text");
  if (otherAlphabet.test(text)) {
    throw new UnreadableText("is no UTF-8, and does not say its charset; send UTF-8, or a data URL with ';charset='");
  }
  return decoded(bytes, "windows-1252", "is no text");
}
