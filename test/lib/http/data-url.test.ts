import { expect, test } from "bun:test";
import { parseDataUrl } from "../../../src/lib/http/data-url.ts";

test.each([
  ["data:image/png;base64,AAEC", "image/png", "AAEC"],
  ["DATA:IMAGE/JPG;name=a.jpg; BASE64 ,AAEC", "image/jpeg", "AAEC"],
  ["data:text/plain;charset=utf-8,h%C3%A9", "text/plain", btoa("h\u00c3\u00a9")],
  ["data:,100%", "text/plain", btoa("100%")],
  ["data:application/json;base64,", "application/json", ""],
  ["data:;base64,iVBORw0KGgoAAAANSUhEUg==", "image/png", "iVBORw0KGgoAAAANSUhEUg=="],
  ["data:application/octet-stream;base64,JVBERi0xLjQ=", "application/pdf", "JVBERi0xLjQ="],
  ["data:,ID3 is a tag", "text/plain", btoa("ID3 is a tag")],
  ["data:application/octet-stream,%00%01%zz", "application/octet-stream", btoa("\u0000\u0001%zz")],
])("%s is read", (url, mimeType, base64) => {
  expect(parseDataUrl(url)).toMatchObject({ mimeType, base64 });
});

test.each([
  ["data:text/csv;charset=iso-8859-1,caf%e9", "iso-8859-1", "caf\xe9"],
  ['data:text/csv; charset="KOI8-R";base64,AAEC', "KOI8-R", "\0\x01\x02"],
  ["data:text/csv;base64,AAEC", undefined, "\0\x01\x02"],
  ["data:text/csv;charset=;base64,AAEC", undefined, "\0\x01\x02"],
])("%s has a charset", (url, charset, bytes) => {
  const read = parseDataUrl(url);
  expect([read?.charset, Buffer.from(read!.base64, "base64").toString("latin1")]).toEqual([charset, bytes]);
});

test.each(["", "data:", "data:image/png;base64", "https://example.com/a,b", "AAEC"])("%p is none", (url) => {
  expect(parseDataUrl(url)).toBeUndefined();
});
