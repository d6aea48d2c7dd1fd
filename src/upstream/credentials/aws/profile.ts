/**
 * Keys of a profile in the shared files of AWS. Sign-in by browser (SSO) is left to the AWS CLI, by `credential_process`.
 * Sources: https://docs.aws.amazon.com/sdkref/latest/guide/file-format.html,
 * https://docs.aws.amazon.com/sdkref/latest/guide/feature-assume-role-credentials.html,
 * https://docs.aws.amazon.com/sdkref/latest/guide/feature-process-credentials.html
 */

import { join } from "node:path";
import { parseObject } from "../../../lib/json/json.ts";
import { ownMember } from "../../../lib/json/own-member.ts";
import type { Dated } from "../cached-secret.ts";
import { NotSetUp, readSecretFile, type SecretTools, variable } from "../tools.ts";
import { awsKeysFrom } from "./keys.ts";
import { containerKeys, instanceKeys } from "./metadata.ts";
import type { AwsKeys } from "./sigv4.ts";
import { assumeRole, assumeRoleWithWebIdentity } from "./sts.ts";

type Profile = Readonly<Record<string, string>>;
type Profiles = Readonly<Record<string, Profile>>;

/** Keys without an end are read again so often, so that those that an operator replaced are not used for long. */
const rereadMs = 5 * 60_000;

export const environmentKeys = (tools: SecretTools): Dated<AwsKeys> => {
  const [accessKeyId, secretAccessKey, sessionToken] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
  ].map((name) => variable(tools, name));
  if (accessKeyId === undefined && secretAccessKey === undefined) throw new NotSetUp("AWS_ACCESS_KEY_ID is not set");
  if (accessKeyId === undefined) throw new Error("AWS_SECRET_ACCESS_KEY is set, but AWS_ACCESS_KEY_ID is not");
  if (secretAccessKey === undefined) throw new Error("AWS_ACCESS_KEY_ID is set, but AWS_SECRET_ACCESS_KEY is not");
  return { value: { accessKeyId, secretAccessKey, sessionToken }, source: "environment (AWS_ACCESS_KEY_ID)" };
};

/** @param wanted the profile's name, where an operator named one: then it has to be there */
export async function profileKeys(tools: SecretTools, wanted: string | undefined, region: string) {
  const profiles = profilesOf(tools);
  const name = wanted ?? "default";
  if (profiles === undefined || ownMember(profiles, name) === undefined) {
    const missing = `there is no profile ${name} in ${filesOf(tools).join(" or ")}`;
    throw wanted === undefined ? new NotSetUp(missing) : new Error(missing);
  }
  return keysOfProfile(tools, profiles, name, region, []);
}

export const regionOfProfile = (tools: SecretTools, wanted: string | undefined): string | undefined => {
  try {
    return ownMember(profilesOf(tools) ?? {}, wanted ?? "default")?.["region"];
  } catch {
    // Whoever asks for its keys gets the error.
    return undefined;
  }
};

async function keysOfProfile(
  tools: SecretTools,
  profiles: Profiles,
  name: string,
  region: string,
  before: readonly string[],
): Promise<Dated<AwsKeys>> {
  const source = `profile ${name}`;
  const profile = ownMember(profiles, name);
  if (profile === undefined) throw new Error(`${before.at(-1)} names the profile ${name}, which does not exist`);
  const isLoop = before.includes(name);
  if (profile["role_arn"] !== undefined && !isLoop) return roleKeys(tools, profiles, name, region, before);
  const { aws_access_key_id: accessKeyId, aws_secret_access_key: secretAccessKey } = profile;
  if (accessKeyId && secretAccessKey) {
    const value = { accessKeyId, secretAccessKey, sessionToken: profile["aws_session_token"] || undefined };
    return { value, source, endsAt: tools.clock.now() + rereadMs };
  }
  if (isLoop) throw new Error(`${source} takes its role by itself, and has no keys`);
  if (profile["credential_process"] !== undefined) return processKeys(tools, profile["credential_process"], source);
  if (profile["sso_session"] !== undefined || profile["sso_start_url"] !== undefined) {
    throw new Error(
      `${source} signs in by SSO, which is not supported: give it credential_process = aws configure export-credentials --profile <of SSO> --format process`,
    );
  }
  throw new NotSetUp(`${source} has no keys`);
}

async function roleKeys(
  tools: SecretTools,
  profiles: Profiles,
  name: string,
  region: string,
  before: readonly string[],
): Promise<Dated<AwsKeys>> {
  const profile = profiles[name]!;
  const source = `profile ${name}`;
  if (profile["mfa_serial"] !== undefined)
    throw new Error(`${source} wants a code (mfa_serial), which nobody is there to type`);
  const role = {
    arn: profile["role_arn"]!,
    sessionName: profile["role_session_name"],
    externalId: profile["external_id"],
    durationSeconds: profile["duration_seconds"],
  };
  const { region: ownRegion = region, web_identity_token_file: tokenFile, source_profile: other } = profile;
  if (tokenFile !== undefined) {
    const token = readSecretFile(tools, tokenFile, `${source} (web_identity_token_file)`);
    return assumeRoleWithWebIdentity(tools, role, token, ownRegion, source);
  }
  if (other !== undefined) {
    const keys = await keysOfProfile(tools, profiles, other, region, [...before, name]);
    return assumeRole(tools, role, keys.value, ownRegion, `${source} by ${keys.source}`);
  }
  const from = profile["credential_source"];
  const sources = { Environment: environmentKeys, EcsContainer: containerKeys, Ec2InstanceMetadata: instanceKeys };
  const found = from === undefined ? undefined : ownMember(sources, from);
  if (found === undefined)
    throw new Error(`${source} has role_arn, but neither source_profile nor a known credential_source`);
  const keys = await found(tools);
  return assumeRole(tools, role, keys.value, ownRegion, `${source} by ${keys.source}`);
}

async function processKeys(tools: SecretTools, command: string, source: string): Promise<Dated<AwsKeys>> {
  const body = parseObject(await tools.run(command));
  const who = `${source} (credential_process)`;
  if (body?.["Version"] !== 1) throw new Error(`${who} wrote no credentials of version 1`);
  const keys = awsKeysFrom(body, "SessionToken", who);
  return { ...keys, endsAt: keys.endsAt ?? tools.clock.now() + rereadMs };
}

function filesOf(tools: SecretTools): [credentials: string, config: string] {
  const home = variable(tools, "HOME") ?? variable(tools, "USERPROFILE") ?? "/";
  return [
    variable(tools, "AWS_SHARED_CREDENTIALS_FILE") ?? join(home, ".aws/credentials"),
    variable(tools, "AWS_CONFIG_FILE") ?? join(home, ".aws/config"),
  ];
}

/** @returns undefined where there is no file; keys of the credentials file go before those of the other */
function profilesOf(tools: SecretTools): Profiles | undefined {
  const [credentials, config] = filesOf(tools).map((path) => {
    try {
      return tools.readFile(path);
    } catch (error) {
      throw new Error(`${path} can't be read: ${(error as Error).message}`);
    }
  });
  if (credentials === undefined && config === undefined) return undefined;
  const profiles: Record<string, Record<string, string>> = Object.create(null);
  const add = (text: string | undefined, nameOf: (section: string) => string | undefined) => {
    for (const [section, settings] of sectionsOf(text ?? "")) {
      const name = nameOf(section);
      if (name !== undefined) profiles[name] = { ...profiles[name], ...settings };
    }
  };
  add(config, (section) => (section === "default" ? section : /^profile\s+(.+)$/.exec(section)?.[1]?.trim()));
  add(credentials, (section) => section);
  return profiles;
}

/** Indented lines belong to a setting above, such as `s3 =`: none of those is read here. */
function sectionsOf(text: string): [section: string, settings: Record<string, string>][] {
  const sections: [string, Record<string, string>][] = [];
  for (const line of text.split(/\r?\n/)) {
    if (/^\s*([#;]|$)/.test(line)) continue;
    const section = /^\[\s*([^\]]+?)\s*\]/.exec(line)?.[1];
    if (section !== undefined) sections.push([section.replaceAll(/["']/g, ""), Object.create(null)]);
    const setting = /^([^\s=#;[][^=]*?)\s*=\s*(.*?)\s*$/.exec(line);
    const settings = sections.at(-1)?.[1];
    if (setting !== null && settings !== undefined)
      settings[setting[1]!.toLowerCase()] = setting[2]!.replace(/\s+[#;].*$/, "");
  }
  return sections;
}
