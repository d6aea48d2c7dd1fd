import { describe, expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import { AwsV4Signer } from "aws4fetch";
import type { KeylessAuth } from "../../../src/providers/provider.ts";
import { googleEndpoints, metadataServer, type TokenEndpoint } from "../../helpers/credentials/google.ts";
import { headersOf, renewed, startMs, TestSources } from "../../helpers/credentials/sources.ts";

const scope = "https://www.googleapis.com/auth/cloud-platform";
const auth: KeylessAuth = { kind: "google", scope };
const { publicKey, privateKey } = generateKeyPairSync("rsa", {
  modulusLength: 2048,
  publicKeyEncoding: { type: "spki", format: "pem" },
  privateKeyEncoding: { type: "pkcs8", format: "pem" },
});
const audience = "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/x";
const acting = "a@p.iam.gserviceaccount.com";

const settings = (at: TestSources, more: Partial<TokenEndpoint> = {}): TokenEndpoint => ({
  ...{
    publicKey,
    email: "sa@p.iam.gserviceaccount.com",
    keyId: "k1",
    now: () => at.clock.now(),
    scope,
    refreshToken: "rt",
  },
  subject: { isTrusted: (token) => token === "jwt-1", type: "urn:ietf:params:oauth:token-type:jwt", audience },
  impersonated: acting,
  ...more,
});

const serviceAccount = (url: string) => ({
  ...{ type: "service_account", project_id: "p", private_key_id: "k1", private_key: privateKey },
  ...{ client_email: "sa@p.iam.gserviceaccount.com", token_uri: `${url}/token` },
});
const user = (url: string) => ({
  ...{ type: "authorized_user", client_id: "id", client_secret: "cs", refresh_token: "rt", token_uri: `${url}/token` },
});
const external = (url: string, source: object, more = {}) => ({
  ...{ type: "external_account", audience, subject_token_type: "urn:ietf:params:oauth:token-type:jwt" },
  ...{ token_url: `${url}/v1/token`, credential_source: source, ...more },
});
const actsAs = (url: string) => ({
  service_account_impersonation_url: `${url}/v1/projects/-/serviceAccounts/${acting}:generateAccessToken`,
});

async function errorOf(at: TestSources): Promise<string> {
  const error = await headersOf(at.signer(auth)).then(
    () => undefined,
    (reason) => reason,
  );
  expect(error).toMatchObject({ status: 503, code: "upstream_unavailable" });
  expect(error.message + JSON.stringify(at.logged.lines)).not.toContain("PRIVATE KEY");
  return error.message;
}

/** Writes a file of credentials, and names it. */
const use = (at: TestSources, file: unknown) => {
  at.env["GOOGLE_APPLICATION_CREDENTIALS"] = at.write(
    "credentials.json",
    typeof file === "string" ? file : JSON.stringify(file),
  );
};

describe("a service account", () => {
  test("asks by a signed assertion, and anew before its token ends", async () => {
    using at = new TestSources();
    using google = googleEndpoints(settings(at));
    use(at, serviceAccount(google.url));
    const signer = at.signer(auth);
    const both = await Promise.all([headersOf(signer), headersOf(signer)]);
    expect(both).toEqual([{ authorization: "Bearer ya29.sa-1" }, { authorization: "Bearer ya29.sa-1" }]);
    expect([signer.isIn("x ya29.sa-1"), signer.isIn("ya29")]).toEqual([true, false]);
    expect(await signer.source()).toBe("service_account (GOOGLE_APPLICATION_CREDENTIALS)");
    at.clock.advance(3_300_000);
    expect(await headersOf(signer)).toEqual({ authorization: "Bearer ya29.sa-1" });
    expect(await renewed(signer, "Bearer ya29.sa-1")).toEqual({ authorization: "Bearer ya29.sa-2" });
    expect(google.requests).toHaveLength(2);
  });

  test("whose token is refused gets another, once", async () => {
    using at = new TestSources();
    using google = googleEndpoints(settings(at));
    use(at, serviceAccount(google.url));
    const signer = at.signer(auth);
    const headers = await headersOf(signer);
    at.clock.advance(60_000);
    signer.refused(headers);
    expect(await headersOf(signer)).toEqual({ authorization: "Bearer ya29.sa-2" });
    signer.refused(headers);
    expect(google.requests).toHaveLength(2);
  });

  test("by an option of the account goes before the environment", async () => {
    using at = new TestSources();
    using google = googleEndpoints(settings(at));
    use(at, "{}");
    const file = at.write("own.json", JSON.stringify({ ...serviceAccount(google.url), quota_project_id: "q" }));
    const signer = at.signer(auth, { credentials_file: file });
    expect(await headersOf(signer)).toEqual({ authorization: "Bearer ya29.sa-1", "x-goog-user-project": "q" });
    expect(await signer.source()).toBe("service_account (options.credentials_file)");
  });

  test("with a key that is none says so, and shows nothing of it", async () => {
    using at = new TestSources();
    use(at, {
      ...serviceAccount("http://127.0.0.1:1"),
      private_key: "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----",
    });
    expect(await errorOf(at)).toBe("up: private_key is no RSA key in PKCS #8.");
  });

  test("of another project is refused with the endpoint's own word", async () => {
    using at = new TestSources();
    using google = googleEndpoints(settings(at, { email: "other" }));
    use(at, serviceAccount(google.url));
    expect(await errorOf(at)).toBe(
      "up: the token endpoint (service_account (GOOGLE_APPLICATION_CREDENTIALS)) answered 400 (invalid_grant).",
    );
  });
});

describe("a user", () => {
  test("of gcloud's own file, and one who acts as a service account", async () => {
    using at = new TestSources();
    using google = googleEndpoints(settings(at));
    at.write(".config/gcloud/application_default_credentials.json", JSON.stringify(user(google.url)));
    expect(await headersOf(at.signer(auth))).toEqual({ authorization: "Bearer ya29.user-1" });
    const file = at.write(
      "acting.json",
      JSON.stringify({
        type: "impersonated_service_account",
        source_credentials: user(google.url),
        ...actsAs(google.url),
      }),
    );
    expect(await headersOf(at.signer(auth, { credentials_file: file }))).toEqual({
      authorization: "Bearer ya29.acting-3600s",
    });
  });
});

describe("workload identity federation", () => {
  test("by a file, read for each exchange", async () => {
    using at = new TestSources();
    let trusted = "jwt-1";
    const isTrusted = (token: string) => token === trusted;
    using google = googleEndpoints(settings(at, { subject: { ...settings(at).subject, isTrusted } }));
    const file = at.write("subject", "jwt-1\n");
    use(at, external(google.url, { file }));
    const signer = at.signer(auth);
    expect(await headersOf(signer)).toEqual({ authorization: "Bearer ya29.sts-1" });
    at.write("subject", "jwt-2");
    trusted = "jwt-2";
    at.clock.advance(3_599_000);
    expect(await headersOf(signer)).toEqual({ authorization: "Bearer ya29.sts-2" });
  });

  test("by a JSON file of a client that has a secret, acting as a service account for half an hour", async () => {
    using at = new TestSources();
    using google = googleEndpoints(settings(at, { basic: "c:s" }));
    const file = at.write("subject.json", JSON.stringify({ id_token: "jwt-1" }));
    const format = { type: "json", subject_token_field_name: "id_token" };
    const life = { service_account_impersonation: { token_lifetime_seconds: 1800 } };
    use(
      at,
      external(google.url, { file, format }, { client_id: "c", client_secret: "s", ...life, ...actsAs(google.url) }),
    );
    expect(await headersOf(at.signer(auth))).toEqual({ authorization: "Bearer ya29.acting-1800s" });
    expect(google.last.json).toEqual({ scope: [scope], lifetime: "1800s" });
  });

  test("by an address, asked with its headers", async () => {
    using at = new TestSources();
    using google = googleEndpoints(settings(at));
    using source = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: ({ headers }) =>
        headers.get("metadata") === "True" ? new Response("jwt-1") : new Response("", { status: 400 }),
    });
    const url = `http://127.0.0.1:${source.port}/t`;
    use(at, external(google.url, { url }));
    expect(await errorOf(at)).toContain(
      "the credential source of external_account (GOOGLE_APPLICATION_CREDENTIALS) answered 400",
    );
    use(at, external(google.url, { url, headers: { Metadata: "True" } }));
    at.clock.advance(1000);
    expect(await headersOf(at.signer(auth))).toEqual({ authorization: "Bearer ya29.sts-1" });
    void source.stop(true);
  });

  test("by AWS: Google gets a signed request that shows who asks", async () => {
    using at = new TestSources({
      AWS_ACCESS_KEY_ID: "AKIA1",
      AWS_SECRET_ACCESS_KEY: "s",
      AWS_SESSION_TOKEN: "t=",
      AWS_REGION: "eu-west-1",
    });
    const sent: string[] = [];
    const isTrusted = (token: string) => sent.push(token) > 0;
    const subject = { isTrusted, type: "urn:ietf:params:aws:token-type:aws4_request", audience };
    using google = googleEndpoints(settings(at, { subject }));
    const verification = "https://sts.{region}.amazonaws.com?Action=GetCallerIdentity&Version=2011-06-15";
    const source = { environment_id: "aws1", regional_cred_verification_url: verification };
    use(at, external(google.url, source, { subject_token_type: subject.type }));
    expect(await headersOf(at.signer(auth))).toEqual({ authorization: "Bearer ya29.sts-1" });
    const { url, method, headers } = JSON.parse(decodeURIComponent(sent[0]!));
    expect([url, method]).toEqual([verification.replace("{region}", "eu-west-1"), "POST"]);
    const given = Object.fromEntries(headers.map(({ key, value }: { key: string; value: string }) => [key, value]));
    const expected = await new AwsV4Signer({
      ...{
        url,
        method,
        accessKeyId: "AKIA1",
        secretAccessKey: "s",
        sessionToken: "t=",
        service: "sts",
        region: "eu-west-1",
      },
      ...{ headers: { "x-goog-cloud-target-resource": audience }, datetime: "20261123T210000Z" },
    }).sign();
    expect(given).toEqual({ ...Object.fromEntries(expected.headers), host: "sts.eu-west-1.amazonaws.com" });
  });
});

describe("the metadata server", () => {
  test("gives tokens, which are renewed in the last fifth of a short life", async () => {
    using at = new TestSources();
    using server = metadataServer(() => 600);
    at.env["GCE_METADATA_HOST"] = server.url.replace("http://", "");
    const signer = at.signer(auth);
    expect(await headersOf(signer)).toEqual({ authorization: "Bearer ya29.gce-1" });
    expect(await signer.source()).toBe("metadata server");
    at.clock.advance(480_000);
    expect(await headersOf(signer)).toEqual({ authorization: "Bearer ya29.gce-1" });
    await server.received(2);
  });

  test("that is another's is not believed", async () => {
    using at = new TestSources();
    using server = metadataServer(() => 600, "Other");
    at.env["GCE_METADATA_HOST"] = server.url.replace("http://", "");
    expect((await errorOf(at)).replaceAll(at.env["HOME"]!, "~")).toBe(
      "up: no Google credentials (GOOGLE_APPLICATION_CREDENTIALS is not set; there is no " +
        "~/.config/gcloud/application_default_credentials.json; metadata server: what answers is not Google's).",
    );
  });
});

test.each([
  ["no JSON", "{", "the file of GOOGLE_APPLICATION_CREDENTIALS is no JSON object"],
  ["of an unknown type", { type: "gdch_service_account" }, "is of a type that is not supported"],
  ["without a key", { type: "service_account", client_email: "a", token_uri: "https://x.test" }, "has no private_key"],
  [
    "by a program",
    external("https://x.test", { executable: { command: "x" } }),
    "has a credential_source that is not supported",
  ],
])("a file that is %s is an error that names it", async (_, file, message) => {
  using at = new TestSources();
  use(at, file);
  expect(await errorOf(at)).toContain(message);
});

test("a file that is not there is an error, and no other source takes its place", async () => {
  using at = new TestSources({ GOOGLE_APPLICATION_CREDENTIALS: "/nowhere/at-all.json" });
  expect(await errorOf(at)).toBe(
    "up: GOOGLE_APPLICATION_CREDENTIALS names /nowhere/at-all.json, which does not exist.",
  );
  expect(at.clock.now()).toBe(startMs);
});
