/** Verifies that a server's certificate is for the requested host name. */
import { checkServerIdentity, type PeerCertificate } from "node:tls";

/**
 * Looks for the name among the certificate's alternative names alone. A name in its subject means nothing, as in browsers
 * and Go (https://www.rfc-editor.org/rfc/rfc9525#section-2), but Bun's own check, like Node's, falls back to it.
 * @returns the mismatch; undefined where the certificate matches
 */
export function checkAlternativeNames(hostname: string, certificate: PeerCertificate): Error | undefined {
  return checkServerIdentity(hostname, { ...certificate, subject: {} as PeerCertificate["subject"] });
}
