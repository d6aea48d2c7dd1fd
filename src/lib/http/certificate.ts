/** A certificate and its key, read and checked before any listener sees them. */
import { readFileSync } from "node:fs";

/** Paths. */
type CertificateFiles = { readonly cert: string; readonly key: string };

export type Certificate = {
  /** PEM: the chain, the server's own first. */
  readonly cert: string;
  /** PEM. */
  readonly key: string;
  readonly expiresAt: Date;
};

/** @throws Error naming the file that can't be read or used, or saying that the two do not belong together */
export function readCertificate(files: CertificateFiles): Certificate {
  const [cert, key] = [read(files.cert), read(files.key)];
  // Loaded late: it takes 7 ms of a start, and most serve behind a proxy.
  const { createPrivateKey, X509Certificate } = require("node:crypto") as typeof import("node:crypto");
  const parsed = attempt(files.cert, "is no certificate in PEM form", () => new X509Certificate(cert));
  const secret = attempt(files.key, "is no private key in PEM form", () => createPrivateKey(key));
  if (!parsed.checkPrivateKey(secret)) throw new Error(`${files.key} is not the key of the certificate ${files.cert}`);
  return { cert, key, expiresAt: new Date(parsed.validTo) };
}

function read(path: string): string {
  return attempt(path, "can't be read", () => readFileSync(path, "utf8"));
}

function attempt<T>(path: string, problem: string, run: () => T): T {
  try {
    return run();
  } catch (error) {
    const code = (error as { code?: string }).code;
    throw new Error(`${path} ${problem}${code === undefined ? "" : ` (${code})`}`);
  }
}
