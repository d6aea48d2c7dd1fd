/** Signed assertions of service accounts. Source: https://developers.google.com/identity/protocols/oauth2/service-account#authorizingrequests */

type Assertion = {
  readonly email: string;
  readonly privateKey: string;
  readonly keyId?: string | undefined;
  readonly scope: string;
  readonly audience: string;
  /** Unix seconds. */
  readonly at: number;
};

const lifetimeSeconds = 3600;

/** @throws Error where the key can't be read */
export async function signedAssertion({ email, privateKey, keyId, scope, audience, at }: Assertion): Promise<string> {
  const header = { alg: "RS256", typ: "JWT", ...(keyId !== undefined && { kid: keyId }) };
  const claims = { iss: email, scope, aud: audience, iat: at, exp: at + lifetimeSeconds };
  const content = [header, claims].map((part) => Buffer.from(JSON.stringify(part)).toString("base64url")).join(".");
  const key = await importedKey(privateKey);
  const signature = await crypto.subtle.sign("RSASSA-PKCS1-v1_5", key, Buffer.from(content));
  return `${content}.${Buffer.from(signature).toString("base64url")}`;
}

async function importedKey(pem: string): Promise<CryptoKey> {
  const base64 = /-----BEGIN PRIVATE KEY-----([\s\S]+?)-----END PRIVATE KEY-----/.exec(pem)?.[1];
  try {
    const bytes = Buffer.from(base64 ?? "", "base64");
    return await crypto.subtle.importKey("pkcs8", bytes, { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" }, false, [
      "sign",
    ]);
  } catch {
    // The cause could show parts of it.
    throw new Error("private_key is no RSA key in PKCS #8");
  }
}
