import { describe, expect, test } from "bun:test";
import { declaredAsUtf8, readableText, UnreadableText } from "../../../src/lib/text/charset.ts";

const latin1 = (text: string) => Buffer.from(text, "latin1");
const wide = (text: string) => Buffer.from(text, "utf16le");

describe("bytes are the text", () => {
  test.each<[what: string, bytes: Buffer, charset: string | undefined, text: string]>([
    ["of UTF-8", Buffer.from("Größe;5 €"), undefined, "Größe;5 €"],
    ["of a mark of UTF-8, without it", Buffer.from("\ufeffGröße"), undefined, "Größe"],
    ["of a mark, whatever is declared", Buffer.from("\ufeffGröße"), "iso-8859-1", "Größe"],
    ["of a mark of UTF-16", wide("\ufeffa;é"), undefined, "a;é"],
    ["of a mark in the other order", wide("\ufeffa;é").swap16(), undefined, "a;é"],
    ["of UTF-16 without a mark", wide("name;größe\r\n"), undefined, "name;größe\r\n"],
    ["of the other order without a mark", wide("name;größe\r\n").swap16(), undefined, "name;größe\r\n"],
    ["that is declared as UTF-16, and has the other order", wide("name;größe").swap16(), "utf-16", "name;größe"],
    ["that is declared as UTF-16, in no Latin letters", wide("名前"), "utf-16", "名前"],
    ["of a declared ISO-8859-1", latin1("caf\xe9;\xa3"), "iso-8859-1", "café;£"],
    ["of a declared ISO-8859-15", latin1("5 \xa4"), "ISO-8859-15", "5 €"],
    ["of a declared ISO-8859-2", latin1("\xb1\xea"), "iso-8859-2", "ąę"],
    ["of a declared windows-1251", latin1("\xcf\xf0\xe8"), "windows-1251", "При"],
    ["of a declared KOI8-R", latin1("\xf0\xd2\xc9"), "koi8-r", "При"],
    ["of a declared Shift_JIS", latin1("\x96\xbc\x91\x4f"), "Shift_JIS", "名前"],
    ["of Python's name for it", latin1("\x96\xbc\x91\x4f"), "cp932", "名前"],
    ["of a declared GBK", latin1("\xc4\xe3\xba\xc3"), "gbk", "你好"],
    ["of a declared EUC-KR", latin1("\xc7\xd1\xb1\xdb"), "euc-kr", "한글"],
    ["of windows-1252, which nobody declares", latin1("caf\xe9 \x93x\x94 \x96 5 \x80"), undefined, "café “x” – 5 €"],
    ["of windows-1252 as ASCII", latin1("Gr\xf6\xdfe"), "us-ascii", "Größe"],
    ["of UTF-8 as ASCII", Buffer.from("Größe"), "us-ascii", "Größe"],
    [
      "whose XML declares it",
      latin1('<?xml version="1.0" encoding="windows-1251"?>\xcf\xf0\xe8'),
      undefined,
      '<?xml version="1.0" encoding="windows-1251"?>При',
    ],
    ["whose HTML declares it", latin1("<meta charset=koi8-r>\xf0\xd2\xc9"), undefined, "<meta charset=koi8-r>При"],
    ["that is empty", Buffer.of(), undefined, ""],
  ])("%s", (_, bytes, charset, text) => {
    expect(readableText(bytes, charset)).toBe(text);
  });
});

describe("no text are", () => {
  test.each<[what: string, bytes: Buffer, charset: string | undefined, why: string]>([
    ["an image", latin1("\x89PNG\r\n\x1a\n\0\0\0\rIHDR"), undefined, "is no text"],
    ["bytes of UTF-16 as UTF-8", latin1("\xe9t\xe9"), "utf-8", "is no text of the charset 'utf-8' that it declares"],
    ["half a character", Buffer.of(0x41, 0, 0x42), "utf-16le", "is no text of the charset 'utf-16le' that it declares"],
    ["an unknown charset", latin1("a"), "cp437", "declares the charset 'cp437', which is not known here; send UTF-8"],
    ["UTF-32", latin1("\xff\xfe\0\0a\0\0\0"), undefined, "is UTF-32; send UTF-8"],
    ["Cyrillic letters of no charset", latin1("\xcf\xf0\xe8\xe2\xe5\xf2"), undefined, "does not say its charset"],
    ["Polish ones", latin1("m\xb1dry"), undefined, "does not say its charset"],
    ["Chinese ones", latin1("\xc4\xe3\xba\xc3"), undefined, "does not say its charset"],
    ["Japanese ones", latin1("\x96\xbc\x91\x4f"), undefined, "does not say its charset"],
  ])("%s", (_, bytes, charset, why) => {
    const read = () => readableText(bytes, charset);
    expect(read).toThrow(UnreadableText);
    expect(read).toThrow(why);
  });
});

test("a text that is written in UTF-8 no longer declares another charset", () => {
  expect(declaredAsUtf8('<?xml version="1.0" encoding="latin1"?><a/>')).toBe(
    '<?xml version="1.0" encoding="utf-8"?><a/>',
  );
  expect(declaredAsUtf8('<meta charset="koi8-r"><p>')).toBe('<meta charset="utf-8"><p>');
  expect(declaredAsUtf8("encoding=latin1")).toBe("encoding=latin1");
});
