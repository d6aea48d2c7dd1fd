/**
 * Workload identity federation: a token of another provider, or a signed request of AWS, is exchanged for one of Google's.
 * Sources: https://google.aip.dev/auth/4117, https://cloud.google.com/iam/docs/reference/sts/rest/v1/TopLevel/token
 */
import { parseObject } from "../../../lib/json/json.ts";
import { awsKeys, awsRegion } from "../aws/chain.ts";
import { signV4 } from "../aws/sigv4.ts";
import type { AccessToken } from "../bearer.ts";
import type { Dated } from "../cached-secret.ts";
import { asked, askJson, fieldOf, form, oauthToken, readSecretFile, type SecretTools, variable } from "../tools.ts";
import { impersonated } from "./impersonation.ts";

type Json = Readonly<Record<string, unknown>>;

export const cloudPlatform = "https://www.googleapis.com/auth/cloud-platform";

export async function federatedToken(
  tools: SecretTools,
  file: Json,
  scope: string,
  source: string,
): Promise<Dated<AccessToken>> {
  const impersonationUrl = file["service_account_impersonation_url"];
  const acts = typeof impersonationUrl === "string" && impersonationUrl !== "";
  const exchanged = await exchange(tools, file, acts ? cloudPlatform : scope, source);
  if (!acts) return { value: { token: exchanged.token }, endsAt: exchanged.endsAt, source };
  const settings = file["service_account_impersonation"] as Json | undefined;
  const seconds = Number(settings?.["token_lifetime_seconds"]) || undefined;
  return impersonated(tools, { url: impersonationUrl, scope, token: exchanged.token, source, seconds });
}

async function exchange(tools: SecretTools, file: Json, scope: string, source: string) {
  const who = `the token exchange (${source})`;
  const audience = fieldOf(file, "audience", source);
  const { client_id: id, client_secret: secret = "", workforce_pool_user_project: project } = file;
  const isClient = typeof id === "string" && id !== "";
  const { headers, body: fields } = form({
    grant_type: "urn:ietf:params:oauth:grant-type:token-exchange",
    audience,
    scope,
    requested_token_type: "urn:ietf:params:oauth:token-type:access_token",
    subject_token_type: fieldOf(file, "subject_token_type", source),
    subject_token: await subjectToken(tools, file, audience, source),
    ...(typeof project === "string" && !isClient && { options: JSON.stringify({ userProject: project }) }),
  });
  const authorization = `Basic ${Buffer.from(`${id}:${secret}`).toString("base64")}`;
  const body = await askJson(tools, who, {
    method: "POST",
    url: fieldOf(file, "token_url", source),
    headers: { ...headers, ...(isClient && { authorization }) },
    body: fields,
  });
  return oauthToken(body, who, tools.clock.now());
}

async function subjectToken(tools: SecretTools, file: Json, audience: string, source: string): Promise<string> {
  const from = (file["credential_source"] ?? {}) as Json;
  if (from["environment_id"] === "aws1") return signedIdentity(tools, from, audience, source);
  const { file: path, url, headers } = from;
  if (typeof path === "string")
    return tokenIn(readSecretFile(tools, path, `${source} (credential_source)`), from, source);
  if (typeof url === "string") {
    const who = `the credential source of ${source}`;
    const sent = headers === undefined ? {} : (headers as Readonly<Record<string, string>>);
    const lowerCased = Object.fromEntries(Object.entries(sent).map(([name, value]) => [name.toLowerCase(), value]));
    const { status, text } = await asked(tools, who, { method: "GET", url, headers: lowerCased, isLocal: true });
    if (status !== 200) throw new Error(`${who} answered ${status}`);
    return tokenIn(text.trim(), from, source);
  }
  throw new Error(`${source} has a credential_source that is not supported: file, url and aws1 are`);
}

function tokenIn(text: string, from: Json, source: string): string {
  const format = (from["format"] ?? {}) as Json;
  const token =
    format["type"] === "json"
      ? fieldOf(
          parseObject(text) ?? {},
          fieldOf(format, "subject_token_field_name", source),
          `the credential source of ${source}`,
        )
      : text;
  if (token === "") throw new Error(`the credential source of ${source} is empty`);
  return token;
}

/** A signed request to STS of AWS that shows who this is: Google sends it. Source: https://google.aip.dev/auth/4117#determining-the-subject-token-in-aws */
async function signedIdentity(tools: SecretTools, from: Json, audience: string, source: string): Promise<string> {
  const region = variable(tools, "AWS_REGION") ?? variable(tools, "AWS_DEFAULT_REGION") ?? awsRegion(tools, undefined);
  const url = fieldOf(from, "regional_cred_verification_url", source).replaceAll("{region}", region);
  const keys = await awsKeys(tools, undefined, region);
  const headers = { "x-goog-cloud-target-resource": audience };
  const at = tools.clock.now();
  const signed = await signV4({ method: "POST", url, headers }, { keys: keys.value, region, service: "sts", at });
  const all = { ...signed.headers, host: new URL(url).host };
  const listed = Object.entries(all).map(([key, value]) => ({ key, value }));
  return encodeURIComponent(JSON.stringify({ url, method: "POST", headers: listed }));
}
