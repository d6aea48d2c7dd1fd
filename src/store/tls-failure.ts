/** Meanings of refused certificates, for an operator. */

/** Source: https://nodejs.org/api/tls.html#x509-certificate-error-codes */
const meanings: readonly [codes: RegExp, words: string][] = [
  [/^CERT_HAS_EXPIRED$/, "its certificate has expired"],
  [/^CERT_NOT_YET_VALID$/, "its certificate is not valid yet: compare the clocks"],
  [/^ERR_TLS_CERT_ALTNAME_INVALID$/, "its certificate is for another host name"],
  [/^CERT_REVOKED$/, "its certificate was revoked"],
  [
    /^(UNABLE_TO_|SELF_SIGNED_CERT|DEPTH_ZERO_SELF_SIGNED|CERT_|INVALID_CA|INVALID_PURPOSE|PATH_LENGTH)/,
    "its certificate is of no authority that is trusted here",
  ],
];

/** @param code of an error of TLS. @returns undefined for any other code */
export function tlsFailure(code: string): string | undefined {
  return meanings.find(([codes]) => codes.test(code))?.[1];
}
