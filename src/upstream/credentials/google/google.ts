/**
 * Access tokens of Google Cloud by application default credentials: a file, else the machine's metadata server.
 * Source: https://cloud.google.com/docs/authentication/application-default-credentials
 */

import { join } from "node:path";
import { parseObject } from "../../../lib/json/json.ts";
import type { AccessToken } from "../bearer.ts";
import type { Dated } from "../cached-secret.ts";
import {
  asked,
  fieldOf,
  grantedToken,
  NotSetUp,
  oauthToken,
  readSecretFile,
  type SecretTools,
  variable,
} from "../tools.ts";
import { cloudPlatform, federatedToken } from "./federation.ts";
import { impersonated } from "./impersonation.ts";
import { signedAssertion } from "./jwt.ts";

type Json = Readonly<Record<string, unknown>>;

/** @param file the account's own, which goes before the others */
export async function googleToken(
  tools: SecretTools,
  scope: string,
  file: string | undefined,
): Promise<Dated<AccessToken>> {
  const named = file ?? variable(tools, "GOOGLE_APPLICATION_CREDENTIALS");
  if (named !== undefined) {
    const from = file === undefined ? "GOOGLE_APPLICATION_CREDENTIALS" : "options.credentials_file";
    return tokenByFile(tools, readSecretFile(tools, named, from), scope, from);
  }
  const wellKnown = wellKnownFile(tools);
  const text = tools.readFile(wellKnown);
  if (text !== undefined) return tokenByFile(tools, text, scope, wellKnown);
  try {
    return await metadataToken(tools, scope);
  } catch (error) {
    throw new Error(
      `no Google credentials (GOOGLE_APPLICATION_CREDENTIALS is not set; there is no ${wellKnown}; metadata server: ${(error as Error).message})`,
    );
  }
}

/** Of `gcloud auth application-default login`. Source: https://cloud.google.com/sdk/docs/configurations */
function wellKnownFile(tools: SecretTools): string {
  const folder = variable(tools, "CLOUDSDK_CONFIG") ?? join(variable(tools, "HOME") ?? "/", ".config/gcloud");
  return join(folder, "application_default_credentials.json");
}

function tokenByFile(tools: SecretTools, text: string, scope: string, from: string): Promise<Dated<AccessToken>> {
  const file = parseObject(text);
  if (file === undefined) throw new Error(`the file of ${from} is no JSON object`);
  return tokenBy(tools, file, scope, from);
}

async function tokenBy(tools: SecretTools, file: Json, scope: string, from: string): Promise<Dated<AccessToken>> {
  const kind = file["type"];
  const source = `${typeof kind === "string" ? kind : "file"} (${from})`;
  const found = await tokenOfKind(tools, file, scope, source);
  const project = file["quota_project_id"];
  // Source: https://cloud.google.com/docs/quotas/set-quota-project
  const headers = typeof project === "string" && project !== "" ? { "x-goog-user-project": project } : undefined;
  return { ...found, source, value: { ...found.value, ...(headers && { headers }) } };
}

function tokenOfKind(tools: SecretTools, file: Json, scope: string, source: string): Promise<Dated<AccessToken>> {
  switch (file["type"]) {
    case "service_account":
      return serviceAccountToken(tools, file, scope, source);
    case "authorized_user":
      return userToken(tools, file, source);
    case "external_account":
      return federatedToken(tools, file, scope, source);
    case "impersonated_service_account": {
      const url = fieldOf(file, "service_account_impersonation_url", source);
      const inner = file["source_credentials"] as Json | undefined;
      if (typeof inner !== "object" || inner === null) throw new Error(`${source} has no source_credentials`);
      const own = () => tokenBy(tools, inner, cloudPlatform, source);
      return own().then(({ value }) =>
        impersonated(tools, { url, scope, token: value.token, source, seconds: undefined }),
      );
    }
    default:
      throw new Error(
        `${source} is of a type that is not supported: service_account, authorized_user, external_account and impersonated_service_account are`,
      );
  }
}

/** Source: https://developers.google.com/identity/protocols/oauth2/service-account */
async function serviceAccountToken(
  tools: SecretTools,
  file: Json,
  scope: string,
  source: string,
): Promise<Dated<AccessToken>> {
  const url = fieldOf(file, "token_uri", source);
  const keyId = file["private_key_id"];
  const now = tools.clock.now();
  const assertion = await signedAssertion({
    email: fieldOf(file, "client_email", source),
    privateKey: fieldOf(file, "private_key", source),
    keyId: typeof keyId === "string" ? keyId : undefined,
    scope,
    audience: url,
    at: Math.floor(now / 1000),
  });
  const fields = { grant_type: "urn:ietf:params:oauth:grant-type:jwt-bearer", assertion };
  return grantedToken(tools, `the token endpoint (${source})`, url, fields, source);
}

/** Source: https://developers.google.com/identity/protocols/oauth2/web-server#offline */
function userToken(tools: SecretTools, file: Json, source: string): Promise<Dated<AccessToken>> {
  const url = typeof file["token_uri"] === "string" ? file["token_uri"] : "https://oauth2.googleapis.com/token";
  const [client_id, client_secret, refresh_token] = ["client_id", "client_secret", "refresh_token"].map((field) =>
    fieldOf(file, field, source),
  ) as [string, string, string];
  return grantedToken(
    tools,
    `the token endpoint (${source})`,
    url,
    { client_id, client_secret, refresh_token, grant_type: "refresh_token" },
    source,
  );
}

/** Source: https://cloud.google.com/compute/docs/access/authenticate-workloads#applications */
async function metadataToken(tools: SecretTools, scope: string): Promise<Dated<AccessToken>> {
  if (variable(tools, "NO_GCE_CHECK")?.toLowerCase() === "true") throw new NotSetUp("NO_GCE_CHECK is set");
  const host = variable(tools, "GCE_METADATA_HOST") ?? "metadata.google.internal";
  const who = "the metadata server";
  const url = `http://${host}/computeMetadata/v1/instance/service-accounts/default/token?scopes=${encodeURIComponent(scope)}`;
  const headers = { "metadata-flavor": "Google", accept: "application/json" };
  const answer = await asked(tools, who, { method: "GET", url, headers, isLocal: true });
  // Another server may answer to that name: https://cloud.google.com/compute/docs/metadata/querying-metadata
  if (answer.headers.get("metadata-flavor") !== "Google") throw new Error("what answers is not Google's");
  if (answer.status !== 200) throw new Error(`it answered ${answer.status}`);
  const body = parseObject(answer.text);
  if (body === undefined) throw new Error("it answered with what is no JSON object");
  const { token, endsAt } = oauthToken(body, who, tools.clock.now());
  return { value: { token }, endsAt, source: "metadata server" };
}
