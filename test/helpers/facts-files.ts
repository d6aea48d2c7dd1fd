/** Files of facts as a release publishes them, of a time that has not come, signed by a key of the test's own. */
import { createHash, createPrivateKey, generateKeyPairSync, sign } from "node:crypto";
import { publicKeyOf } from "../../deploy/release/facts.ts";
import { bundleText } from "../../src/facts/bundle.ts";
import { compiledFacts } from "../../src/facts/facts.ts";
import { compiledList } from "../../src/facts/prices/list.ts";
import type { JsonObject } from "../../src/lib/json/json.ts";

const dayMs = 86_400_000;
export const dayOf = (now: number): string => new Date(now).toISOString().slice(0, 10);

/** Pairs of keys as the release script takes them. */
export function factsKeys(privateKey = generateKeyPairSync("ed25519").privateKey) {
  return {
    publicKey: publicKeyOf(privateKey),
    sign: (bytes: string | Uint8Array) => sign(null, Buffer.from(bytes), privateKey).toString("base64"),
  };
}

/** Those that the executable of tests knows. Source of the bytes before the key itself: https://www.rfc-editor.org/rfc/rfc8410#section-7 */
export const executableKeys = factsKeys(
  createPrivateKey({
    key: Buffer.concat([Buffer.from("302e020100300506032b657004220420", "hex"), Buffer.alloc(32, 7)]),
    ...{ format: "der", type: "pkcs8" },
  }),
);
export type FactsKeys = ReturnType<typeof factsKeys>;

// biome-ignore lint/suspicious/noExplicitAny: tests change any place of it.
export type Change = (file: any) => void;

/** A model of OpenAI's line that nobody has heard of, one of a new line, and a price for each. */
export const nextYear: Change = ({ models, prices }) => {
  const sourced = { source: "https://models.test/next-year" };
  models.providers.openai.models.push({ model: "zeta-1", context: 3_000_000, output: 500_000, ...sourced });
  models.rules.chat.openai.unshift({
    match: "zeta-*",
    max_tokens_field: "max_completion_tokens",
    sampling: "never",
    ...sourced,
  });
  const openai = prices.providers.find(({ id }: { id: string }) => id === "openai");
  openai.models.unshift({ id: "zeta-1", match: { equals: "zeta-1" }, prices: { input_mtok: 7, output_mtok: 70 } });
};

/** The text of a file of facts of that day. */
export function factsText(asOf: string, change: Change = nextYear): string {
  const file = structuredClone({
    models: { ...compiledFacts, as_of: asOf },
    prices: { ...compiledList.content, as_of: asOf },
  });
  change(file);
  return bundleText(asOf, file.models as unknown as JsonObject, file.prices as unknown as JsonObject);
}

export const sha256 = (text: string | Uint8Array): string => createHash("sha256").update(text).digest("hex");

/** What a place of facts holds, by the names of its files. */
export function published(text: string, keys: FactsKeys, asOf: string, now: number, pointed: JsonObject = {}) {
  const file = `facts-${sha256(text)}.json`;
  const signature = keys.sign(text);
  const expires = Math.floor((now + 45 * dayMs) / 1000);
  const signed = JSON.stringify({
    ...{ schema: 1, as_of: asOf, expires_at: expires, file, bytes: Buffer.byteLength(text), signature },
    ...pointed,
  });
  return {
    [file]: text,
    [`${file}.sig`]: `${signature}\n`,
    "facts.json": `${JSON.stringify({ signed, signature: keys.sign(signed) })}\n`,
  };
}
