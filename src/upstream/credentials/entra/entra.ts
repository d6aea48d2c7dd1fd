/**
 * Access tokens of Microsoft Entra ID: by a client's secret, a federated token, or a managed identity.
 * Source: https://learn.microsoft.com/azure/developer/javascript/sdk/authentication/credential-chains
 */
import type { AccessToken } from "../bearer.ts";
import type { Dated } from "../cached-secret.ts";
import { askJson, fieldOf, grantedToken, NotSetUp, readSecretFile, type SecretTools, variable } from "../tools.ts";

type EntraOptions = {
  /** Such as `https://cognitiveservices.azure.com/.default`. */
  readonly scope: string;
  /** The account's own, in place of AZURE_TENANT_ID and AZURE_CLIENT_ID. */
  readonly tenant?: string | undefined;
  readonly client?: string | undefined;
};

/** The first source that is set up counts. */
export async function entraToken(tools: SecretTools, options: EntraOptions): Promise<Dated<AccessToken>> {
  const sources = [
    ["client secret", clientToken],
    ["workload identity", federatedToken],
    ["managed identity", identityToken],
  ] as const;
  const tried: string[] = [];
  for (const [name, token] of sources) {
    try {
      return await token(tools, options);
    } catch (error) {
      tried.push(`${name}: ${(error as Error).message}`);
      if (!(error instanceof NotSetUp)) break;
    }
  }
  throw new Error(`no Entra credentials (${tried.join("; ")})`);
}

/** Source: https://learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow#first-case-access-token-request-with-a-shared-secret */
async function clientToken(tools: SecretTools, options: EntraOptions): Promise<Dated<AccessToken>> {
  const secret = variable(tools, "AZURE_CLIENT_SECRET");
  if (secret === undefined) throw new NotSetUp("AZURE_CLIENT_SECRET is not set");
  return authorityToken(tools, options, { client_secret: secret }, "client secret (AZURE_CLIENT_SECRET)");
}

/**
 * Sources: https://azure.github.io/azure-workload-identity/docs/topics/service-account-labels-and-annotations.html,
 * https://learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow#third-case-access-token-request-with-a-federated-credential
 */
async function federatedToken(tools: SecretTools, options: EntraOptions): Promise<Dated<AccessToken>> {
  const name = "AZURE_FEDERATED_TOKEN_FILE";
  const file = variable(tools, name);
  if (file === undefined) throw new NotSetUp(`${name} is not set`);
  const proof = {
    client_assertion_type: "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
    client_assertion: readSecretFile(tools, file, name),
  };
  return authorityToken(tools, options, proof, `workload identity (${name})`);
}

async function authorityToken(
  tools: SecretTools,
  { scope, tenant = variable(tools, "AZURE_TENANT_ID"), client = variable(tools, "AZURE_CLIENT_ID") }: EntraOptions,
  proof: Readonly<Record<string, string>>,
  source: string,
): Promise<Dated<AccessToken>> {
  if (tenant === undefined) throw new Error("neither AZURE_TENANT_ID nor options.tenant_id is set");
  if (client === undefined) throw new Error("neither AZURE_CLIENT_ID nor options.client_id is set");
  const authority = (variable(tools, "AZURE_AUTHORITY_HOST") ?? "https://login.microsoftonline.com").replace(
    /\/+$/,
    "",
  );
  const url = `${authority}/${encodeURIComponent(tenant)}/oauth2/v2.0/token`;
  const fields = { grant_type: "client_credentials", client_id: client, scope, ...proof };
  return grantedToken(tools, `Entra (${source})`, url, fields, source);
}

/**
 * Of App Service and its kin, else of the virtual machine.
 * Sources: https://learn.microsoft.com/azure/app-service/overview-managed-identity#rest-endpoint-reference,
 * https://learn.microsoft.com/entra/identity/managed-identities-azure-resources/how-to-use-vm-token#get-a-token-using-http
 */
async function identityToken(
  tools: SecretTools,
  { scope, client = variable(tools, "AZURE_CLIENT_ID") }: EntraOptions,
): Promise<Dated<AccessToken>> {
  const endpoint = variable(tools, "IDENTITY_ENDPOINT");
  const header = variable(tools, "IDENTITY_HEADER");
  const isAppService = endpoint !== undefined && header !== undefined;
  const who = isAppService ? "managed identity (IDENTITY_ENDPOINT)" : "managed identity (instance metadata)";
  const query = new URLSearchParams({
    resource: scope.replace(/\/\.default$/, ""),
    "api-version": isAppService ? "2019-08-01" : "2018-02-01",
    ...(client !== undefined && { client_id: client }),
  });
  const host = (variable(tools, "AZURE_POD_IDENTITY_AUTHORITY_HOST") ?? "http://169.254.169.254").replace(/\/+$/, "");
  const url = isAppService ? endpoint : `${host}/metadata/identity/oauth2/token`;
  const headers: Record<string, string> = isAppService ? { "x-identity-header": header } : { metadata: "true" };
  const body = await askJson(tools, who, { method: "GET", url: `${url}?${query}`, headers, isLocal: true });
  const endsAt = Number(body["expires_on"]) * 1000;
  if (!(endsAt > 0)) throw new Error(`${who} gave a token without expires_on`);
  return { value: { token: fieldOf(body, "access_token", who) }, endsAt, source: who };
}
