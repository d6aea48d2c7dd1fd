/** Verifies that a server's certificate is for the requested host name. */
import type { PeerCertificate } from "node:tls";

/** Loads what checks, which takes 9 ms once: while a connection is being made, rather than when it is there. */
export const prepareCheck = () => void loaded();

const loaded = () => require("node:tls") as typeof import("node:tls");

/**
 * Looks for the name among the certificate's alternative names alone. A name in its subject means nothing, as in browsers
 * and Go (https://www.rfc-editor.org/rfc/rfc9525#section-2), but Bun's own check, like Node's, falls back to it.
 * @returns the mismatch; undefined where the certificate matches
 */
export function checkAlternativeNames(hostname: string, certificate: PeerCertificate): Error | undefined {
  return loaded().checkServerIdentity(hostname, { ...certificate, subject: {} as PeerCertificate["subject"] });
}
