/**
 * Signatures that `ssh-keygen -Y verify` checks, which Linux, macOS and Windows have.
 * Source: https://github.com/openssh/openssh-portable/blob/master/PROTOCOL.sshsig
 */
import { createHash, createPublicKey, type KeyObject, sign } from "node:crypto";

const algorithm = "ssh-ed25519";
/** What ssh-keygen's own pages sign files under. */
const namespace = "file";

/** @param key Ed25519 @returns as `ssh-ed25519 AAAA…`, without a comment */
export const sshPublicKey = (key: KeyObject): string => `${algorithm} ${publicBlob(key).toString("base64")}`;

/** @param key Ed25519 @returns the signature in its armour */
export function sshSignature(key: KeyObject, content: Uint8Array): string {
  const magic = Buffer.from("SSHSIG");
  const about = Buffer.concat([field(namespace), field(""), field("sha512")]);
  const signed = Buffer.concat([magic, about, field(createHash("sha512").update(content).digest())]);
  const signature = Buffer.concat([field(algorithm), field(sign(null, signed, key))]);
  const version = Buffer.from([0, 0, 0, 1]);
  const text = Buffer.concat([magic, version, field(publicBlob(key)), about, field(signature)]).toString("base64");
  return `-----BEGIN SSH SIGNATURE-----\n${text.match(/.{1,70}/g)!.join("\n")}\n-----END SSH SIGNATURE-----\n`;
}

const publicBlob = (key: KeyObject) =>
  Buffer.concat([field(algorithm), field(createPublicKey(key).export({ type: "spki", format: "der" }).subarray(-32))]);

function field(value: string | Uint8Array): Buffer {
  const bytes = Buffer.from(value);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([length, bytes]);
}
