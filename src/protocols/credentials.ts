/** Reads a client's key from its headers. */
const bearerForm = /^bearer +(\S+) *$/i;

/** The headers that hold a key alone: those of Anthropic's, Google's and Azure's clients. */
export const keyHeaders = ["x-api-key", "x-goog-api-key", "api-key"] as const;

/** @returns what `Authorization: Bearer …` carries. Source: https://www.rfc-editor.org/rfc/rfc6750#section-2.1 */
export function bearerToken(headers: Headers): string | undefined {
  const authorization = headers.get("authorization");
  return authorization === null ? undefined : bearerForm.exec(authorization)?.[1];
}

/**
 * The caller's key, in whichever header its client has for it; the first one that holds something counts.
 * @returns as it was given; undefined where there is none
 */
export function callerKey(headers: Headers): string | undefined {
  const token = bearerToken(headers);
  if (token !== undefined) return token;
  for (const name of keyHeaders) {
    const key = headers.get(name);
    if (key) return key;
  }
  return undefined;
}
