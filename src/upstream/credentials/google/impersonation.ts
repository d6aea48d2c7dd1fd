/** A service account's token, for who may act as it. Source: https://cloud.google.com/iam/docs/reference/credentials/rest/v1/projects.serviceAccounts/generateAccessToken */
import type { AccessToken } from "../bearer.ts";
import type { Dated } from "../cached-secret.ts";
import { askJson, fieldOf, type SecretTools } from "../tools.ts";

type Impersonation = {
  readonly url: string;
  readonly scope: string;
  /** Of whoever acts as the account. */
  readonly token: string;
  readonly source: string;
  /** The token's life. Default: an hour. */
  readonly seconds: number | undefined;
};

export async function impersonated(
  tools: SecretTools,
  { url, scope, token, source, seconds = 3600 }: Impersonation,
): Promise<Dated<AccessToken>> {
  const who = `service account impersonation (${source})`;
  const body = await askJson(tools, who, {
    method: "POST",
    url,
    headers: { "content-type": "application/json", accept: "application/json", authorization: `Bearer ${token}` },
    body: JSON.stringify({ scope: scope.split(" "), lifetime: `${seconds}s` }),
  });
  const endsAt = Date.parse(fieldOf(body, "expireTime", who));
  if (Number.isNaN(endsAt)) throw new Error(`${who} gave an expireTime that is no time`);
  return { value: { token: fieldOf(body, "accessToken", who) }, endsAt, source };
}
