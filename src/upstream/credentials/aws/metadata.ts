/** Keys of the container or the machine that this program runs on. */
import type { Dated } from "../cached-secret.ts";
import { asked, askJson, NotSetUp, readSecretFile, type SecretTools, variable } from "../tools.ts";
import { awsKeysFrom } from "./keys.ts";
import type { AwsKeys } from "./sigv4.ts";

/** Addresses that may be asked without TLS, beside loopback: of ECS and of EKS. */
const containerHosts: ReadonlySet<string> = new Set(["169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"]);
const isLoopback = (host: string) => host === "localhost" || host === "[::1]" || /^127(\.\d+){3}$/.test(host);

/** Source: https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html */
export async function containerKeys(tools: SecretTools): Promise<Dated<AwsKeys>> {
  const relative = variable(tools, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  const full = variable(tools, "AWS_CONTAINER_CREDENTIALS_FULL_URI");
  if (relative === undefined && full === undefined) {
    throw new NotSetUp("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI and AWS_CONTAINER_CREDENTIALS_FULL_URI are not set");
  }
  const url = relative === undefined ? full! : `http://169.254.170.2${relative}`;
  if (!isTrusted(url)) {
    throw new Error("AWS_CONTAINER_CREDENTIALS_FULL_URI must be https, or an address of this machine, ECS or EKS");
  }
  const source = "container";
  const authorization = authorizationOf(tools);
  const headers = { accept: "application/json", ...(authorization !== undefined && { authorization }) };
  const body = await askJson(tools, "the container's credentials endpoint", {
    method: "GET",
    url,
    headers,
    isLocal: true,
  });
  return awsKeysFrom(body, "Token", source);
}

function isTrusted(url: string): boolean {
  if (!URL.canParse(url)) return false;
  const { protocol, hostname } = new URL(url);
  return protocol === "https:" || (protocol === "http:" && (containerHosts.has(hostname) || isLoopback(hostname)));
}

function authorizationOf(tools: SecretTools): string | undefined {
  const name = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE";
  const file = variable(tools, name);
  const token =
    file === undefined ? variable(tools, "AWS_CONTAINER_AUTHORIZATION_TOKEN") : readSecretFile(tools, file, name);
  if (token !== undefined && /[\r\n]/.test(token))
    throw new Error("the container's authorization token has several lines");
  return token;
}

/** Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-metadata-v2-how-it-works.html */
const sessionSeconds = "21600";

/**
 * By the instance's metadata service, version 2.
 * Sources: https://docs.aws.amazon.com/sdkref/latest/guide/feature-imds-credentials.html,
 * https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-metadata-security-credentials.html
 */
export async function instanceKeys(tools: SecretTools): Promise<Dated<AwsKeys>> {
  if (variable(tools, "AWS_EC2_METADATA_DISABLED")?.toLowerCase() === "true") {
    throw new NotSetUp("AWS_EC2_METADATA_DISABLED is set");
  }
  const who = "the instance metadata service";
  const usual =
    variable(tools, "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE")?.toLowerCase() === "ipv6"
      ? "http://[fd00:ec2::254]"
      : "http://169.254.169.254";
  const base = (variable(tools, "AWS_EC2_METADATA_SERVICE_ENDPOINT") ?? usual).replace(/\/+$/, "");
  const session = await asked(tools, who, {
    method: "PUT",
    url: `${base}/latest/api/token`,
    headers: { "x-aws-ec2-metadata-token-ttl-seconds": sessionSeconds },
    isLocal: true,
  });
  if (session.status !== 200) throw new Error(`${who} answered ${session.status}`);
  const headers = { "x-aws-ec2-metadata-token": session.text.trim() };
  const path = `${base}/latest/meta-data/iam/security-credentials/`;
  const roles = await asked(tools, who, { method: "GET", url: path, headers, isLocal: true });
  const role = roles.text.split("\n")[0]?.trim() ?? "";
  if (roles.status === 404 || (roles.status === 200 && role === "")) throw new NotSetUp("the instance has no role");
  if (roles.status !== 200) throw new Error(`${who} answered ${roles.status}`);
  const body = await askJson(tools, who, {
    method: "GET",
    url: path + encodeURIComponent(role),
    headers,
    isLocal: true,
  });
  if (body["Code"] !== undefined && body["Code"] !== "Success")
    throw new Error(`${who} has no credentials for ${role}`);
  return awsKeysFrom(body, "Token", `instance metadata (role ${role})`);
}
