/**
 * Keys of a role, from the Security Token Service.
 * Sources: https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html,
 * https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRoleWithWebIdentity.html
 */
import type { Dated } from "../cached-secret.ts";
import { asked, form, type SecretTools, variable } from "../tools.ts";
import { keysInXml } from "./keys.ts";
import { type AwsKeys, signV4 } from "./sigv4.ts";

export type Role = {
  readonly arn: string;
  readonly sessionName?: string | undefined;
  readonly externalId?: string | undefined;
  readonly durationSeconds?: string | undefined;
};

/** Source: https://docs.aws.amazon.com/general/latest/gr/sts.html */
function addressOf(tools: SecretTools, region: string): string {
  const own = variable(tools, "AWS_ENDPOINT_URL_STS");
  const domain = region.startsWith("cn-") ? "amazonaws.com.cn" : "amazonaws.com";
  return own ?? `https://sts.${region}.${domain}`;
}

const fieldsOf = (action: string, { arn, sessionName, externalId, durationSeconds }: Role) => ({
  Action: action,
  Version: "2011-06-15",
  RoleArn: arn,
  RoleSessionName: sessionName ?? "troupe",
  ...(externalId !== undefined && { ExternalId: externalId }),
  ...(durationSeconds !== undefined && { DurationSeconds: durationSeconds }),
});

function xmlForm(fields: Readonly<Record<string, string>>) {
  const { headers, body } = form(fields);
  return { headers: { ...headers, accept: "application/xml" }, body };
}

/** @param keys of whoever may take the role */
export async function assumeRole(
  tools: SecretTools,
  role: Role,
  keys: AwsKeys,
  region: string,
  source: string,
): Promise<Dated<AwsKeys>> {
  const { headers, body } = xmlForm(fieldsOf("AssumeRole", role));
  const unsigned = { method: "POST" as const, url: `${addressOf(tools, region)}/`, headers, body };
  const signed = await signV4(unsigned, { keys, region, service: "sts", at: tools.clock.now() });
  return keysOf(tools, { ...unsigned, headers: signed.headers }, source);
}

/** @param token of the provider that the role trusts */
export function assumeRoleWithWebIdentity(
  tools: SecretTools,
  role: Role,
  token: string,
  region: string,
  source: string,
): Promise<Dated<AwsKeys>> {
  const { headers, body } = xmlForm({
    ...fieldsOf("AssumeRoleWithWebIdentity", role),
    WebIdentityToken: token,
  });
  return keysOf(tools, { method: "POST", url: `${addressOf(tools, region)}/`, headers, body }, source);
}

async function keysOf(
  tools: SecretTools,
  request: Parameters<SecretTools["ask"]>[0],
  source: string,
): Promise<Dated<AwsKeys>> {
  const { status, text } = await asked(tools, `STS (${source})`, request);
  const code = /<Code>([\w.]{1,80})<\/Code>/.exec(text)?.[1];
  if (status !== 200) throw new Error(`STS (${source}) answered ${status}${code === undefined ? "" : ` (${code})`}`);
  return keysInXml(text, source);
}
