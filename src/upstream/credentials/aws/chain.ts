/**
 * The standard chain of sources of AWS credentials. The first that is set up counts: if it fails, nothing else takes its place.
 * Source: https://docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html
 */
import type { Dated } from "../cached-secret.ts";
import { NotSetUp, readSecretFile, type SecretTools, variable } from "../tools.ts";
import { containerKeys, instanceKeys } from "./metadata.ts";
import { environmentKeys, profileKeys, regionOfProfile } from "./profile.ts";
import type { AwsKeys } from "./sigv4.ts";
import { assumeRoleWithWebIdentity } from "./sts.ts";

/** @param profile the account's, which alone counts where it names one */
export async function awsKeys(
  tools: SecretTools,
  profile: string | undefined,
  region: string,
): Promise<Dated<AwsKeys>> {
  if (profile !== undefined) return profileKeys(tools, profile, region);
  const sources: [name: string, keys: (tools: SecretTools) => Promise<Dated<AwsKeys>>][] = [
    ["environment", async (all) => environmentKeys(all)],
    ["web identity", (all) => webIdentityKeys(all, region)],
    ["profile", (all) => profileKeys(all, variable(all, "AWS_PROFILE"), region)],
    ["container", containerKeys],
    ["instance metadata", instanceKeys],
  ];
  const tried: string[] = [];
  for (const [name, keys] of sources) {
    try {
      return await keys(tools);
    } catch (error) {
      tried.push(`${name}: ${(error as Error).message}`);
      if (!(error instanceof NotSetUp)) break;
    }
  }
  throw new Error(`no AWS credentials (${tried.join("; ")})`);
}

/** Of a role in Kubernetes. Source: https://docs.aws.amazon.com/eks/latest/userguide/iam-roles-for-service-accounts.html */
async function webIdentityKeys(tools: SecretTools, region: string): Promise<Dated<AwsKeys>> {
  const file = variable(tools, "AWS_WEB_IDENTITY_TOKEN_FILE");
  if (file === undefined) throw new NotSetUp("AWS_WEB_IDENTITY_TOKEN_FILE is not set");
  const arn = variable(tools, "AWS_ROLE_ARN");
  if (arn === undefined) throw new Error("AWS_WEB_IDENTITY_TOKEN_FILE is set, but AWS_ROLE_ARN is not");
  const token = readSecretFile(tools, file, "AWS_WEB_IDENTITY_TOKEN_FILE");
  const role = { arn, sessionName: variable(tools, "AWS_ROLE_SESSION_NAME") };
  return assumeRoleWithWebIdentity(tools, role, token, region, "web identity (AWS_WEB_IDENTITY_TOKEN_FILE)");
}

/** The region of calls whose address names none. Source: https://docs.aws.amazon.com/sdkref/latest/guide/feature-region.html */
export const awsRegion = (tools: SecretTools, profile: string | undefined): string =>
  variable(tools, "AWS_REGION") ??
  variable(tools, "AWS_DEFAULT_REGION") ??
  regionOfProfile(tools, profile ?? variable(tools, "AWS_PROFILE")) ??
  "us-east-1";
