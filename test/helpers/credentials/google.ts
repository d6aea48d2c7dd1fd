/**
 * Stand-ins of Google's sources of tokens. Each refuses what the real one refuses.
 * Sources: https://developers.google.com/identity/protocols/oauth2/service-account,
 * https://cloud.google.com/iam/docs/reference/sts/rest/v1/TopLevel/token,
 * https://cloud.google.com/compute/docs/access/authenticate-workloads
 */
import { createVerify } from "node:crypto";
import { type RecordedRequest, UpstreamServer } from "../upstream-server.ts";
import { notFound } from "./sources.ts";

export type TokenEndpoint = {
  /** PEM of the service account's public key. */
  readonly publicKey: string;
  readonly email: string;
  readonly keyId: string;
  /** Unix milliseconds. */
  readonly now: () => number;
  readonly scope: string;
  readonly refreshToken: string;
  /** The subject token that is trusted, and the audience of its pool. */
  readonly subject: {
    readonly isTrusted: (token: string) => boolean;
    readonly type: string;
    readonly audience: string;
  };
  readonly basic?: string;
  readonly impersonated: string;
};

const refused = (error: string, status = 400) => Response.json({ error, error_description: "d" }, { status });

/** Token endpoint, token exchange and impersonation in one. Tokens are numbered. */
export function googleEndpoints(settings: TokenEndpoint): UpstreamServer {
  let given = 0;
  const token = (kind: string, more = {}) => {
    given += 1;
    return Response.json({ access_token: `ya29.${kind}-${given}`, expires_in: 3599, token_type: "Bearer", ...more });
  };
  const federated = new Set<string>();
  const server: UpstreamServer = new UpstreamServer((request) => {
    const { method, path, headers, text } = request;
    if (method !== "POST") return notFound();
    if (path === `/v1/projects/-/serviceAccounts/${settings.impersonated}:generateAccessToken`)
      return impersonation(request, federated, settings);
    if (headers.get("content-type") !== "application/x-www-form-urlencoded") return refused("invalid_request");
    const fields = Object.fromEntries(new URLSearchParams(text));
    if (path === "/token") {
      if (fields["grant_type"] === "urn:ietf:params:oauth:grant-type:jwt-bearer")
        return isAssertion(fields["assertion"] ?? "", `${server.url}/token`, settings)
          ? token("sa")
          : refused("invalid_grant");
      const { grant_type, client_id, client_secret, refresh_token } = fields;
      const isUser = client_id === "id" && client_secret === "cs" && refresh_token === settings.refreshToken;
      return grant_type === "refresh_token" && isUser ? token("user") : refused("invalid_grant");
    }
    if (path !== "/v1/token") return notFound();
    const { subject, basic } = settings;
    if (basic !== undefined && headers.get("authorization") !== `Basic ${btoa(basic)}`)
      return refused("invalid_client", 401);
    const isExchange =
      fields["grant_type"] === "urn:ietf:params:oauth:grant-type:token-exchange" &&
      fields["requested_token_type"] === "urn:ietf:params:oauth:token-type:access_token" &&
      fields["subject_token_type"] === subject.type &&
      fields["audience"] === subject.audience &&
      fields["scope"] === "https://www.googleapis.com/auth/cloud-platform";
    if (!isExchange) return refused("invalid_request");
    if (!subject.isTrusted(fields["subject_token"] ?? "")) return refused("invalid_grant");
    federated.add(`ya29.sts-${given + 1}`);
    return token("sts", { issued_token_type: "urn:ietf:params:oauth:token-type:access_token" });
  });
  return server;
}

function isAssertion(jwt: string, audience: string, { publicKey, email, keyId, scope, now }: TokenEndpoint): boolean {
  const [head = "", body = "", signature = ""] = jwt.split(".");
  const isSigned = createVerify("RSA-SHA256").update(`${head}.${body}`).verify(publicKey, signature, "base64url");
  if (!isSigned) return false;
  const [header, claims] = [head, body].map((part) => JSON.parse(Buffer.from(part, "base64url").toString()));
  const seconds = now() / 1000;
  return (
    Bun.deepEquals(header, { alg: "RS256", typ: "JWT", kid: keyId }) &&
    Bun.deepEquals(
      { ...claims, iat: 0, exp: claims.exp - claims.iat },
      { iss: email, scope, aud: audience, iat: 0, exp: 3600 },
    ) &&
    Number.isInteger(claims.iat) &&
    Math.abs(claims.iat - seconds) < 60
  );
}

function impersonation({ headers, json }: RecordedRequest, federated: ReadonlySet<string>, { now }: TokenEndpoint) {
  const bearer = headers.get("authorization")?.replace("Bearer ", "") ?? "";
  if (!federated.has(bearer) && !bearer.startsWith("ya29.user-"))
    return Response.json({ error: { code: 403, status: "PERMISSION_DENIED", message: "m" } }, { status: 403 });
  const { scope, lifetime } = json as { scope: unknown; lifetime: string };
  if (!Array.isArray(scope) || !/^\d+s$/.test(lifetime))
    return Response.json({ error: { code: 400 } }, { status: 400 });
  const expireTime = new Date(now() + Number.parseInt(lifetime, 10) * 1000).toISOString();
  return Response.json({ accessToken: `ya29.acting-${lifetime}`, expireTime });
}

/** The metadata server, which is asked with its own header and answers with it. */
export function metadataServer(lifetime: () => number, flavor = "Google"): UpstreamServer {
  let given = 0;
  return new UpstreamServer(({ method, path, headers }) => {
    const answer = { headers: { "metadata-flavor": flavor } };
    const url = new URL(path, "http://metadata");
    if (method !== "GET" || url.pathname !== "/computeMetadata/v1/instance/service-accounts/default/token")
      return notFound();
    if (headers.get("metadata-flavor") !== "Google") return new Response("", { status: 403, ...answer });
    given += 1;
    return Response.json({ access_token: `ya29.gce-${given}`, expires_in: lifetime(), token_type: "Bearer" }, answer);
  });
}
