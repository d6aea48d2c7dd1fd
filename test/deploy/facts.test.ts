/** The facts that a release publishes, as a program takes them. */
import { expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import { writeFileSync } from "node:fs";
import { privateKeyOf, publicKeyOf, signedFacts } from "../../deploy/release/facts.ts";
import { readBundle } from "../../src/facts/bundle.ts";
import { compiledFacts } from "../../src/facts/facts.ts";
import { compiledAsOf } from "../../src/facts/in-force.ts";
import { isSigned } from "../../src/facts/signed.ts";
import { readPublished } from "../../src/usage/facts/fetch.ts";
import { TempFolder } from "../helpers/temp-folder.ts";

const pem = (kind: "ed25519" | "x25519") =>
  generateKeyPairSync(kind as "ed25519").privateKey.export({ type: "pkcs8", format: "pem" }) as string;
const seconds = Date.parse(`${compiledAsOf}T12:00:00Z`) / 1000;

test("are proved by the build's key, and the same each time", async () => {
  const key = privateKeyOf(pem("ed25519"));
  const files = signedFacts(key, seconds);
  expect(signedFacts(key, seconds)).toEqual(files);
  using folder = new TempFolder();
  for (const [name, text] of Object.entries(files)) writeFileSync(folder.file(name), text);
  const keys = [publicKeyOf(key)];
  const found = (await readPublished(folder.path, { keys, now: seconds * 1000 }))!;
  expect(found.asOf).toBe(compiledAsOf);
  expect(readBundle(found.bytes, "facts.json", compiledAsOf).models).toEqual({ ...compiledFacts, schema: 1 });
  expect(await isSigned(found.bytes, files[`facts-${found.sha256}.json.sig`]!.trim(), keys)).toBe(true);
  const late = { keys, now: seconds * 1000 + 46 * 86_400_000 };
  await expect(readPublished(folder.path, late)).rejects.toThrow(/it stands still: it is of .*, and ran out on /);
  // A row a line, so that people can read what has changed.
  expect(Math.max(...files[`facts-${found.sha256}.json`]!.split("\n").map(({ length }) => length))).toBeLessThan(8000);
});

test("are signed by no other kind of key", () => {
  expect(() => privateKeyOf(pem("x25519"))).toThrow("TROUPE_FACTS_PRIVATE_KEY is a key of x25519, not of Ed25519");
});
