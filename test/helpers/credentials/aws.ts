/**
 * Stand-ins of AWS's sources of keys. Each refuses what the real one refuses.
 * Sources: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-metadata-v2-how-it-works.html,
 * https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-iam-roles.html,
 * https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html
 */
import { AwsV4Signer } from "aws4fetch";
import { type RecordedRequest, UpstreamServer } from "../upstream-server.ts";
import { notFound } from "./sources.ts";

export type GivenKeys = { readonly id: string; readonly secret: string; readonly token: string; readonly ends: string };

/** The instance metadata service: version 2 alone. */
export function instanceMetadata(role: string, keys: () => GivenKeys): UpstreamServer {
  const session = "session-of-instance==";
  return new UpstreamServer(({ method, path, headers }) => {
    if (method === "PUT" && path === "/latest/api/token") {
      const ttl = Number(headers.get("x-aws-ec2-metadata-token-ttl-seconds"));
      return ttl >= 1 && ttl <= 21_600 ? new Response(session) : new Response("", { status: 400 });
    }
    if (headers.get("x-aws-ec2-metadata-token") !== session || method !== "GET")
      return new Response("", { status: 401 });
    const base = "/latest/meta-data/iam/security-credentials/";
    if (path === base) return role === "" ? notFound() : new Response(role);
    if (path !== base + role) return notFound();
    const { id, secret, token, ends } = keys();
    return Response.json({
      ...{ Code: "Success", LastUpdated: "2026-11-23T20:00:00Z", Type: "AWS-HMAC" },
      ...{ AccessKeyId: id, SecretAccessKey: secret, Token: token, Expiration: ends },
    });
  });
}

/** The agent of a container. */
export function containerAgent(authorization: string | null, keys: () => GivenKeys): UpstreamServer {
  return new UpstreamServer(({ method, path, headers }) => {
    if (method !== "GET" || path !== "/v1/credentials") return notFound();
    if (headers.get("authorization") !== authorization)
      return Response.json({ code: "AccessDenied", message: "not authorized" }, { status: 401 });
    const { id, secret, token, ends } = keys();
    return Response.json({ AccessKeyId: id, SecretAccessKey: secret, Token: token, Expiration: ends, RoleArn: "arn" });
  });
}

type StsOptions = {
  /** Who may take a role: the secret by the id. */
  readonly callers?: Readonly<Record<string, string>>;
  /** The only web identity that is trusted. */
  readonly identity?: string;
  readonly keys: () => GivenKeys;
};

const stsError = (status: number, code: string) =>
  new Response(
    `<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type><Code>${code}</Code><Message>m</Message></Error></ErrorResponse>`,
    { status, headers: { "content-type": "text/xml" } },
  );

export function securityTokenService({ callers = {}, identity, keys }: StsOptions): UpstreamServer {
  const server: UpstreamServer = new UpstreamServer(async (request) => {
    const { method, path, headers, text } = request;
    const fields = new URLSearchParams(text);
    if (method !== "POST" || path !== "/" || headers.get("content-type") !== "application/x-www-form-urlencoded")
      return notFound();
    if (fields.get("Version") !== "2011-06-15") return stsError(400, "InvalidAction");
    if (!/^arn:aws:iam::\d{12}:role\//.test(fields.get("RoleArn") ?? "")) return stsError(400, "ValidationError");
    if (!/^[\w+=,.@-]{2,64}$/.test(fields.get("RoleSessionName") ?? "")) return stsError(400, "ValidationError");
    const action = fields.get("Action");
    if (action === "AssumeRoleWithWebIdentity") {
      if (headers.has("authorization")) return stsError(400, "SignatureDoesNotMatch");
      if (fields.get("WebIdentityToken") !== identity) return stsError(400, "InvalidIdentityToken");
    } else if (action !== "AssumeRole" || !(await isSigned(request, server.url, callers))) {
      return stsError(403, "SignatureDoesNotMatch");
    }
    const { id, secret, token, ends } = keys();
    return new Response(
      `<${action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><${action}Result><Credentials><AccessKeyId>${id}</AccessKeyId><SecretAccessKey>${secret}</SecretAccessKey><SessionToken>${token}</SessionToken><Expiration>${ends}</Expiration></Credentials></${action}Result></${action}Response>`,
      { headers: { "content-type": "text/xml" } },
    );
  });
  return server;
}

async function isSigned({ headers, text }: RecordedRequest, url: string, callers: Readonly<Record<string, string>>) {
  const authorization = headers.get("authorization") ?? "";
  const found = /^AWS4-HMAC-SHA256 Credential=([^/]+)\/\d{8}\/([^/]+)\/sts\/aws4_request, SignedHeaders=([^,]+), /.exec(
    authorization,
  );
  const secret = callers[found?.[1] ?? ""];
  if (found === null || secret === undefined) return false;
  const token = headers.get("x-amz-security-token");
  const signer = new AwsV4Signer({
    ...{ method: "POST", url: `${url}/`, body: text, accessKeyId: found[1]!, secretAccessKey: secret },
    ...(token !== null && { sessionToken: token }),
    ...{ region: found[2]!, service: "sts", datetime: headers.get("x-amz-date")!, allHeaders: true },
    headers: Object.fromEntries(
      found[3]!
        .split(";")
        .flatMap((name) => (name.startsWith("x-amz-") || name === "host" ? [] : [[name, headers.get(name)!]])),
    ),
  });
  return (await signer.authHeader()) === authorization;
}
