import { expect, test } from "bun:test";
import { parseDataUrl } from "../../src/lib/data-url.ts";

test.each([
  ["data:image/png;base64,AAEC", "image/png", "AAEC"],
  ["DATA:IMAGE/JPG;name=a.jpg; BASE64 ,AAEC", "image/jpeg", "AAEC"],
  ["data:text/plain;charset=utf-8,h%C3%A9", "text/plain", btoa("h\u00c3\u00a9")],
  ["data:,100%", "text/plain", btoa("100%")],
  ["data:application/json;base64,", "application/json", ""],
])("%s is read", (url, mimeType, base64) => {
  expect(parseDataUrl(url)).toEqual({ mimeType, base64 });
});

test.each(["", "data:", "data:image/png;base64", "https://example.com/a,b", "AAEC"])("%p is none", (url) => {
  expect(parseDataUrl(url)).toBeUndefined();
});
