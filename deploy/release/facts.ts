/**
 * The facts that a release publishes beside its archives, signed: the file, its signature, and the pointer that names it.
 * `TROUPE_FACTS_PRIVATE_KEY=… bun deploy/release/facts.ts <folder>` writes them alone.
 */
import { createHash, createPrivateKey, createPublicKey, type KeyObject, sign } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { bundleText, readBundle } from "../../src/facts/bundle.ts";
import { compiledFacts } from "../../src/facts/facts.ts";
import { compiledAsOf } from "../../src/facts/in-force.ts";
import { compiledList } from "../../src/facts/prices/list.ts";
import type { JsonObject } from "../../src/lib/json/json.ts";

/** A mirror that was not renewed for so long counts as forgotten. */
const goodForSeconds = 45 * 86_400;

/** @param pem an Ed25519 private key (PKCS #8) @throws Error where it is none */
export function privateKeyOf(pem: string): KeyObject {
  const key = createPrivateKey(pem);
  if (key.asymmetricKeyType !== "ed25519")
    throw new Error(`TROUPE_FACTS_PRIVATE_KEY is a key of ${key.asymmetricKeyType}, not of Ed25519`);
  return key;
}

/** The public key as builds are given it: raw, in Base64. */
export const publicKeyOf = (key: KeyObject): string =>
  createPublicKey(key).export({ type: "spki", format: "der" }).subarray(-32).toString("base64");

/**
 * @param seconds Unix time of the release
 * @returns the contents by their names: the same for the same facts, time and key
 * @throws FactsError where this program would not take them
 */
export function signedFacts(key: KeyObject, seconds: number): Record<string, string> {
  const { models, prices } = { models: compiledFacts, prices: compiledList.content };
  const text = bundleText(compiledAsOf, models as unknown as JsonObject, prices as unknown as JsonObject);
  const bytes = Buffer.from(text);
  readBundle(bytes, "facts.json", compiledAsOf);
  const file = `facts-${createHash("sha256").update(bytes).digest("hex")}.json`;
  const signatureOf = (content: Uint8Array) => sign(null, content, key).toString("base64");
  const signature = signatureOf(bytes);
  const signed = JSON.stringify({
    ...{ schema: 1, as_of: compiledAsOf, expires_at: seconds + goodForSeconds, file, bytes: bytes.length, signature },
  });
  return {
    [file]: text,
    [`${file}.sig`]: `${signature}\n`,
    "facts.json": `${JSON.stringify({ signed, signature: signatureOf(Buffer.from(signed)) })}\n`,
  };
}

if (import.meta.main) {
  const [folder] = process.argv.slice(2);
  const pem = process.env["TROUPE_FACTS_PRIVATE_KEY"];
  if (folder === undefined || !pem)
    throw new Error("TROUPE_FACTS_PRIVATE_KEY=<PEM> bun deploy/release/facts.ts <folder>");
  mkdirSync(folder, { recursive: true });
  for (const [name, text] of Object.entries(signedFacts(privateKeyOf(pem), Math.floor(Date.now() / 1000)))) {
    writeFileSync(join(folder, name), text);
    console.log(join(folder, name));
  }
}
