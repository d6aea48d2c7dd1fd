/** Where clients put their key. */
const bearerForm = /^bearer +(\S+) *$/i;

/** @returns what `Authorization: Bearer …` carries. Source: https://www.rfc-editor.org/rfc/rfc6750#section-2.1 */
export function bearerToken(headers: Headers): string | undefined {
  const authorization = headers.get("authorization");
  return authorization === null ? undefined : bearerForm.exec(authorization)?.[1];
}
