/**
 * What proves that facts are those of the build's makers: Ed25519 (RFC 8032) over the bytes of the file. A pointer, `facts.json`, says which
 * file is the newest and until when it may be believed, and is signed too, so that who carries the files can neither change nor
 * hold them back for long.
 */
import { type Static, Type } from "@sinclair/typebox";
import { Check } from "@sinclair/typebox/value";
import { isObject, objectOf, parseJson, textOf } from "../lib/json/json.ts";
import { formatPath, schemaErrors } from "../lib/json/schema-errors.ts";
import { Open } from "../lib/json/schemas.ts";
import { FactsError, maxBundleBytes, wordsFor } from "./bundle.ts";

const hash = "[0-9a-f]{64}";
const signature = (description: string) => Type.String({ pattern: "^[A-Za-z0-9+/]{86}==$", description });

/** The text that a pointer signs. */
const PointerText = Open({
  schema: Type.Integer({ minimum: 1, description: "The number of this form: 1." }),
  as_of: Type.String({ pattern: "^20\\d\\d-[01]\\d-[0-3]\\d$", description: "The day on which the file was made." }),
  expires_at: Type.Integer({ minimum: 0, description: "Unix seconds: from then on the pointer counts as forgotten." }),
  file: Type.String({ pattern: `^facts-${hash}\\.json$`, description: "The name of the file, beside the pointer." }),
  bytes: Type.Integer({ minimum: 1, maximum: maxBundleBytes }),
  signature: signature("Ed25519 over the file's bytes, in Base64."),
});
type PointerText = Static<typeof PointerText>;

/** @param keys raw public keys, in Base64: any of them counts @returns whether one of them signed it */
export async function isSigned(bytes: Uint8Array, by: string, keys: readonly string[]): Promise<boolean> {
  const given = Uint8Array.from(Buffer.from(by, "base64"));
  // From a Buffer `Uint8Array.from` takes each byte by itself: 20 ms of a file.
  const signed = new Uint8Array(bytes);
  for (const key of keys) {
    const raw = Uint8Array.from(Buffer.from(key, "base64"));
    const known = await crypto.subtle.importKey("raw", raw, "Ed25519", false, ["verify"]).catch(() => undefined);
    if (known !== undefined && (await crypto.subtle.verify("Ed25519", known, given, signed))) return true;
  }
  return false;
}

/**
 * @param place of the pointer, for errors
 * @param now Unix milliseconds
 * @throws FactsError
 */
export async function readPointer(
  bytes: Uint8Array,
  place: string,
  keys: readonly string[],
  now: number,
): Promise<PointerText> {
  const text = new TextDecoder().decode(bytes);
  const file = parseJson(text);
  if (!isObject(file)) throw new FactsError(`${place}: ${wordsFor(text)}`);
  const [signed, by] = [textOf(file["signed"]), textOf(file["signature"])];
  if (signed === undefined || by === undefined) throw new FactsError(`${place}: it is not signed`);
  if (!(await isSigned(new TextEncoder().encode(signed), by, keys)))
    throw new FactsError(`${place}: it is not signed by a key that this program knows`);
  const pointer = objectOf(parseJson(signed));
  if (!Check(PointerText, pointer)) {
    const [first] = schemaErrors(PointerText, pointer, 1);
    throw new FactsError(`${place}: signed.${formatPath(first!.path)}: ${first!.message}`);
  }
  const today = new Date(now).toISOString().slice(0, 10);
  if (pointer.as_of > today) throw new FactsError(`${place}: it is of ${pointer.as_of}, which is yet to come`);
  const expiry = new Date(pointer.expires_at * 1000);
  if (pointer.expires_at * 1000 <= now) {
    const since = Number.isNaN(expiry.getTime()) ? "long ago" : `on ${expiry.toISOString().slice(0, 10)}`;
    throw new FactsError(`${place}: it stands still: it is of ${pointer.as_of}, and ran out ${since}`);
  }
  return pointer;
}
