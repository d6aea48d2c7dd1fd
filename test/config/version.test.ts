import { expect, test } from "bun:test";
import { configVersion } from "../../src/config/version.ts";
import { configOf } from "./loading.ts";

test("nodes that count windows apart are of different versions, whatever the address is to those who share one", () => {
  const versionOf = (coordination = "", store = "postgres://db.internal/troupe") =>
    configVersion(configOf({ yaml: `store: ${store}\n${coordination && `coordination: ${coordination}`}` }));
  expect(versionOf("redis://a:6379")).toBe(versionOf("redis://user:secret@b:6379/1"));
  expect(versionOf("redis://a:6379")).not.toBe(versionOf());
  expect(versionOf()).toBe(versionOf("", "postgres://other.internal/troupe"));
});
