import { describe, expect, test } from "bun:test";
import type { KeylessAuth } from "../../../src/providers/provider.ts";
import {
  containerAgent,
  type GivenKeys,
  instanceMetadata,
  securityTokenService,
} from "../../helpers/credentials/aws.ts";
import { headersOf, isoAfter, renewed, TestSources, unsigned } from "../../helpers/credentials/sources.ts";
import { UpstreamServer } from "../../helpers/upstream-server.ts";

const auth: KeylessAuth = { kind: "aws-sigv4", service: "bedrock" };
const hour = 3_600_000;
/** Nothing of the machine that the tests run on. */
const nowhere = { AWS_EC2_METADATA_DISABLED: "true" };

const idIn = (headers: Readonly<Record<string, string>>) =>
  /Credential=([^/]+)/.exec(headers["authorization"] ?? "")?.[1];

/** Keys whose number rises with each that is given. */
function numbered(at: TestSources, ms = hour) {
  let given = 0;
  return (): GivenKeys => {
    given += 1;
    return { id: `ASIA${given}`, secret: `secret-${given}`, token: `token-${given}==`, ends: isoAfter(at.clock, ms) };
  };
}

/** What a call is refused with. */
async function errorOf(at: TestSources, options = {}): Promise<string> {
  const error = await headersOf(at.signer(auth, options)).then(
    () => undefined,
    (reason) => reason,
  );
  expect(error).toMatchObject({ status: 503, code: "upstream_unavailable" });
  return error.message;
}

describe("keys of the environment", () => {
  test("sign, with a session's token", async () => {
    using at = new TestSources({ AWS_ACCESS_KEY_ID: "AKIA1", AWS_SECRET_ACCESS_KEY: "s", AWS_SESSION_TOKEN: "t" });
    const headers = await headersOf(at.signer(auth));
    expect([idIn(headers), headers["x-amz-security-token"]]).toEqual(["AKIA1", "t"]);
    expect(await at.signer(auth).source()).toBe("environment (AWS_ACCESS_KEY_ID)");
  });

  test("a half is an error, and nothing else takes its place", async () => {
    using at = new TestSources({ AWS_ACCESS_KEY_ID: "AKIA1" });
    at.write(".aws/credentials", "[default]\naws_access_key_id=AKIA2\naws_secret_access_key=s\n");
    expect(await errorOf(at)).toBe(
      "up: no AWS credentials (environment: AWS_ACCESS_KEY_ID is set, but AWS_SECRET_ACCESS_KEY is not).",
    );
  });
});

test("without any source the error names what was tried, and no secret", async () => {
  using at = new TestSources(nowhere);
  const message = await errorOf(at);
  expect(message.replaceAll(at.env["HOME"]!, "~")).toBe(
    "up: no AWS credentials (environment: AWS_ACCESS_KEY_ID is not set; web identity: AWS_WEB_IDENTITY_TOKEN_FILE is not set; " +
      "profile: there is no profile default in ~/.aws/credentials or ~/.aws/config; container: AWS_CONTAINER_CREDENTIALS_RELATIVE_URI " +
      "and AWS_CONTAINER_CREDENTIALS_FULL_URI are not set; instance metadata: AWS_EC2_METADATA_DISABLED is set).",
  );
  expect(at.logged.lines.map(({ fields }) => fields["provider"])).toEqual(["up"]);
});

describe("a profile", () => {
  test("of either file, credentials before configuration, with comments and nested settings", async () => {
    using at = new TestSources(nowhere);
    at.write(
      ".aws/config",
      "# mine\n[default]\nregion = eu-north-1\naws_access_key_id = AKIA0\ns3 =\n  aws_access_key_id = nested\n\n[profile 'two']\naws_access_key_id=AKIA2\naws_secret_access_key=s2 ; a note\n",
    );
    at.write(".aws/credentials", "[default]\naws_access_key_id = AKIA1\naws_secret_access_key = s1\n[ignored\n");
    const first = await headersOf(at.signer(auth));
    expect(first["authorization"]).toStartWith(
      "AWS4-HMAC-SHA256 Credential=AKIA1/20261123/eu-north-1/bedrock/aws4_request",
    );
    expect(idIn(await headersOf(at.signer(auth, { profile: "two" })))).toBe("AKIA2");
    expect(await at.signer(auth, { profile: "two" }).source()).toBe("profile two");
  });

  test("by AWS_PROFILE and other files", async () => {
    using at = new TestSources(nowhere);
    at.env["AWS_PROFILE"] = "work";
    at.env["AWS_SHARED_CREDENTIALS_FILE"] = at.write(
      "elsewhere",
      "[work]\naws_access_key_id=AKIA3\naws_secret_access_key=s\n",
    );
    expect(idIn(await headersOf(at.signer(auth)))).toBe("AKIA3");
  });

  test("that was named and is not there is an error", async () => {
    using at = new TestSources({ ...nowhere, AWS_PROFILE: "gone" });
    at.write(".aws/credentials", "[default]\naws_access_key_id=AKIA1\naws_secret_access_key=s\n");
    expect(await errorOf(at)).toContain("profile: there is no profile gone in ");
    expect(await errorOf(at, { profile: "__proto__" })).toContain("there is no profile __proto__ in ");
  });

  test("is read again after five minutes, and after a refusal", async () => {
    using at = new TestSources(nowhere);
    const write = (id: string) =>
      at.write(".aws/credentials", `[default]\naws_access_key_id=${id}\naws_secret_access_key=s\n`);
    write("AKIA1");
    const signer = at.signer(auth);
    const headers = await headersOf(signer);
    write("AKIA2");
    expect(idIn(await headersOf(signer))).toBe("AKIA1");
    at.clock.advance(60_000);
    signer.refused(headers);
    expect(idIn(await headersOf(signer))).toBe("AKIA2");
    write("AKIA3");
    at.clock.advance(300_000);
    expect(idIn(await headersOf(signer))).toBe("AKIA3");
  });

  test("by a process", async () => {
    using at = new TestSources(nowhere);
    const body = {
      Version: 1,
      AccessKeyId: "ASIA7",
      SecretAccessKey: "s",
      SessionToken: "t7",
      Expiration: isoAfter(at.clock, hour),
    };
    const file = at.write("keys.json", JSON.stringify(body));
    at.write(".aws/config", `[default]\ncredential_process = cat "${file}"\n`);
    expect((await headersOf(at.signer(auth)))["x-amz-security-token"]).toBe("t7");
    at.write(
      ".aws/config",
      "[default]\ncredential_process = echo secret-text; exit 3\n[profile b]\ncredential_process = echo {}\n",
    );
    expect(await errorOf(at, { profile: "default" })).toBe("up: credential_process ended with status 3.");
    expect(await errorOf(at, { profile: "b" })).toBe(
      "up: profile b (credential_process) wrote no credentials of version 1.",
    );
  });

  test.each([
    [
      "sso_session = corp",
      "signs in by SSO, which is not supported: give it credential_process = aws configure export-credentials",
    ],
    [
      "role_arn = arn:aws:iam::123456789012:role/a",
      "has role_arn, but neither source_profile nor a known credential_source",
    ],
    [
      "role_arn = arn:aws:iam::123456789012:role/a\nsource_profile = none",
      "default names the profile none, which does not exist",
    ],
    [
      "role_arn = arn:aws:iam::123456789012:role/a\nsource_profile = default",
      "takes its role by itself, and has no keys",
    ],
    ["role_arn = arn:aws:iam::123456789012:role/a\nmfa_serial = 1", "wants a code (mfa_serial)"],
    ["region = eu-west-1", "profile default has no keys"],
  ])("with %p says what it lacks", async (settings, message) => {
    using at = new TestSources(nowhere);
    at.write(".aws/config", `[default]\n${settings}\n`);
    expect(await errorOf(at)).toContain(message);
  });
});

describe("a role", () => {
  const arn = "arn:aws:iam::123456789012:role/caller";

  test("of a profile, by the keys of another, and by its own", async () => {
    using at = new TestSources(nowhere);
    using sts = securityTokenService({ callers: { AKIA1: "s1", AKIA4: "s4" }, keys: numbered(at) });
    at.env["AWS_ENDPOINT_URL_STS"] = sts.url;
    at.write(
      ".aws/credentials",
      "[base]\naws_access_key_id=AKIA1\naws_secret_access_key=s1\n[own]\naws_access_key_id=AKIA4\naws_secret_access_key=s4\n",
    );
    at.write(
      ".aws/config",
      `[profile a]\nrole_arn=${arn}\nsource_profile=base\nexternal_id=x 1\nduration_seconds=900\nregion=ap-south-1\n[profile own]\nrole_arn=${arn}\nsource_profile=own\nrole_session_name=me\n`,
    );
    expect((await headersOf(at.signer(auth, { profile: "a" })))["x-amz-security-token"]).toBe("token-1==");
    const asked = new URLSearchParams(sts.last.text);
    expect(Object.fromEntries(asked)).toEqual({
      ...{ Action: "AssumeRole", Version: "2011-06-15", RoleArn: arn, RoleSessionName: "troupe" },
      ...{ ExternalId: "x 1", DurationSeconds: "900" },
    });
    expect(sts.last.headers.get("authorization")).toContain("/ap-south-1/sts/aws4_request");
    expect(idIn(await headersOf(at.signer(auth, { profile: "own" })))).toBe("ASIA2");
    expect(await at.signer(auth, { profile: "a" }).source()).toBe("profile a by profile base");
  });

  test("by a web identity, whose file is read for each renewal", async () => {
    using at = new TestSources({ ...nowhere, AWS_ROLE_ARN: arn, AWS_ROLE_SESSION_NAME: "pod" });
    let identity = "jwt-1";
    const keys = numbered(at);
    using sts = new UpstreamServer(({ text }) =>
      new URLSearchParams(text).get("WebIdentityToken") === identity
        ? new Response(xml(keys()))
        : new Response("<Error><Code>InvalidIdentityToken</Code></Error>", { status: 400 }),
    );
    at.env["AWS_ENDPOINT_URL_STS"] = sts.url;
    at.env["AWS_WEB_IDENTITY_TOKEN_FILE"] = at.write("token", "jwt-1\n");
    const signer = at.signer(auth);
    expect(idIn(await headersOf(signer))).toBe("ASIA1");
    at.clock.advance(hour);
    identity = "jwt-2";
    await expect(headersOf(signer)).rejects.toThrow(
      "web identity: STS (web identity (AWS_WEB_IDENTITY_TOKEN_FILE)) answered 400 (InvalidIdentityToken)",
    );
    at.write("token", "jwt-2");
    at.clock.advance(1000);
    expect(idIn(await headersOf(signer))).toBe("ASIA2");
  });

  test("a strict service takes the web identity's request", async () => {
    using at = new TestSources({ ...nowhere, AWS_ROLE_ARN: arn });
    using sts = securityTokenService({ identity: "jwt", keys: numbered(at) });
    at.env["AWS_ENDPOINT_URL_STS"] = sts.url;
    at.env["AWS_WEB_IDENTITY_TOKEN_FILE"] = at.write("token", "jwt");
    expect(idIn(await headersOf(at.signer(auth)))).toBe("ASIA1");
    expect(sts.last.headers.has("authorization")).toBe(false);
  });
});

const xml = ({ id, secret, token, ends }: GivenKeys) =>
  `<R><Credentials><AccessKeyId>${id}</AccessKeyId><SecretAccessKey>${secret}</SecretAccessKey><SessionToken>${token}</SessionToken><Expiration>${ends}</Expiration></Credentials></R>`;

describe("a container", () => {
  test("gives keys by its agent, authorized by a file that is read each time", async () => {
    using at = new TestSources(nowhere);
    using agent = containerAgent("pod-token-2", numbered(at));
    at.env["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = `${agent.url}/v1/credentials`;
    at.env["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = at.write("pod", "pod-token-1");
    expect(await errorOf(at)).toContain("container: the container's credentials endpoint answered 401 (AccessDenied)");
    at.write("pod", "pod-token-2\n");
    at.clock.advance(1000);
    const signer = at.signer(auth);
    expect(idIn(await headersOf(signer))).toBe("ASIA1");
    expect(await signer.source()).toBe("container");
  });

  test.each(["http://203.0.113.7/x", "http://169.254.169.254.evil.test/", "ftp://127.0.0.1/", "nonsense"])(
    "is never asked at %s",
    async (url) => {
      using at = new TestSources({ ...nowhere, AWS_CONTAINER_CREDENTIALS_FULL_URI: url });
      expect(await errorOf(at)).toContain("must be https, or an address of this machine, ECS or EKS");
    },
  );
});

describe("an instance", () => {
  test("gives the keys of its role, and new ones before their end", async () => {
    using at = new TestSources();
    using metadata = instanceMetadata("role-a", numbered(at));
    at.env["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = `${metadata.url}/`;
    const signer = at.signer(auth);
    const calls = await Promise.all([headersOf(signer), headersOf(signer), headersOf(signer)]);
    expect(calls.map(idIn)).toEqual(["ASIA1", "ASIA1", "ASIA1"]);
    expect(metadata.requests).toHaveLength(3);
    expect(await signer.source()).toBe("instance metadata (role role-a)");
    at.clock.advance(hour - 5 * 60_000);
    const before = await headersOf(signer);
    expect(idIn(before)).toBe("ASIA1");
    expect(idIn(await renewed(signer, before["authorization"]))).toBe("ASIA2");
    expect(metadata.requests).toHaveLength(6);
  });

  test("without a role has none", async () => {
    using at = new TestSources();
    using metadata = instanceMetadata("", numbered(at));
    at.env["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = metadata.url;
    expect(await errorOf(at)).toContain("instance metadata: the instance has no role");
  });

  test.each([
    ["is down", undefined, "the instance metadata service gave no answer ("],
    ["answers 500", () => new Response("secret-1", { status: 500 }), "the instance metadata service answered 500"],
    ["answers garbage", () => new Response("<html>secret-1"), "answered with what is no JSON object"],
    [
      "answers half",
      () => Response.json({ Code: "Success", AccessKeyId: "A", Expiration: "2027-01-01T00:00:00Z" }),
      "has no SecretAccessKey",
    ],
    [
      "answers a strange end",
      () => Response.json({ AccessKeyId: "A", SecretAccessKey: "secret-1", Expiration: "soon" }),
      "has an Expiration that is no time",
    ],
    [
      "answers old keys",
      () => Response.json({ AccessKeyId: "A", SecretAccessKey: "secret-1", Expiration: "2020-01-01T00:00:00Z" }),
      "gave credentials that have ended",
    ],
  ])("that %s is an error without a secret, and calls come back with it", async (_, answer, message) => {
    using at = new TestSources();
    let isBroken = true;
    using metadata = instanceMetadata("r", numbered(at));
    using broken = new UpstreamServer(({ path }) =>
      isBroken && path.endsWith("/r") ? answer!() : new Response(path.endsWith("token") ? "s" : "r"),
    );
    const closed = new UpstreamServer(() => new Response(""));
    closed[Symbol.dispose]();
    at.env["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = answer === undefined ? closed.url : broken.url;
    const found = await errorOf(at);
    expect(found).toContain(message);
    expect(found + JSON.stringify(at.logged.lines)).not.toContain("secret-1");
    isBroken = false;
    at.env["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = metadata.url;
    at.clock.advance(1000);
    expect(idIn(await headersOf(at.signer(auth)))).toBe("ASIA1");
  });

  test("that stays silent fails after five seconds, and keys that count are used meanwhile", async () => {
    using at = new TestSources();
    let isSilent = false;
    const give = numbered(at);
    using metadata = instanceMetadata("r", give);
    using silent = new UpstreamServer(() => new Promise<Response>(() => {}));
    at.env["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = metadata.url;
    const signer = at.signer(auth);
    await headersOf(signer);
    at.env["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = silent.url;
    isSilent = true;
    at.clock.advance(hour - 60_000);
    expect(idIn(await headersOf(signer))).toBe("ASIA1");
    await silent.received(1);
    at.clock.advance(5000);
    const { fields } = await at.logged.logged(({ message }) => message === "credentials could not be fetched");
    expect(fields["error"]).toContain("sent no answer within 5 s");
    expect([isSilent, idIn(await headersOf(signer))]).toEqual([true, "ASIA1"]);
  });
});

test("accounts of the same settings share their keys, which outlive a reload", async () => {
  using at = new TestSources();
  using metadata = instanceMetadata("r", numbered(at));
  at.env["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = metadata.url;
  expect(at.signer(auth, { region: "us-east-1" })).toBe(at.signer(auth, { region: "us-east-1" }));
  expect(at.signer(auth, { region: "us-east-1" })).not.toBe(at.signer(auth, { region: "us-east-2" }));
  expect((await at.signer(auth).sign(unsigned)).method).toBe("POST");
});
