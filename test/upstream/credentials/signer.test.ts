import { describe, expect, test } from "bun:test";
import type { HttpRequest } from "../../../src/lib/http/client.ts";
import { HttpClient } from "../../../src/lib/http/client.ts";
import { ApiError } from "../../../src/protocols/errors.ts";
import { providers } from "../../../src/providers/registry.ts";
import { Accounts } from "../../../src/upstream/accounts.ts";
import { ClientDisconnected, Upstream } from "../../../src/upstream/client.ts";
import { Credentials } from "../../../src/upstream/credentials/credentials.ts";
import type { Signer } from "../../../src/upstream/credentials/signer.ts";
import { ManualClock } from "../../helpers/manual-clock.ts";
import { UpstreamServer } from "../../helpers/upstream-server.ts";

const timeouts = { connectSeconds: 5, firstByteSeconds: 5, idleSeconds: 5 };
const never = new AbortController().signal;

/** Signs when it is released. */
class HeldSigner implements Signer {
  readonly asked: HttpRequest[] = [];
  readonly refusals: HttpRequest["headers"][] = [];
  readonly #held = Promise.withResolvers<string>();

  sign(request: HttpRequest): Promise<HttpRequest> {
    this.asked.push(request);
    return this.#held.promise.then((authorization) => ({
      ...request,
      headers: { ...request.headers, authorization },
    }));
  }
  refused(headers: HttpRequest["headers"]): void {
    this.refusals.push(headers);
  }
  source(): Promise<string> {
    return Promise.resolve("held");
  }
  isIn(text: string): boolean {
    return text.includes("secret");
  }
  release(authorization: string): void {
    this.#held.resolve(authorization);
  }
  fail(error: Error): void {
    this.#held.reject(error);
  }
}

const senderOf = (signer: Signer) => ({
  account: { name: "up", baseUrl: "https://up.test", models: [], options: {}, modelRules: [] },
  credentials: new Credentials({ headers: { "x-own": "1" }, options: {} }, {}, signer),
  timeouts,
});

describe("a request that waits for its signature", () => {
  const open = (status = 200) => {
    const server = new UpstreamServer(() => new Response("{}", { status }));
    const clock = new ManualClock();
    const upstream = new Upstream(clock, new HttpClient(clock));
    const signer = new HeldSigner();
    const send = (signal = never) => upstream.send({ url: `${server.url}/x`, body: "{}" }, senderOf(signer), signal);
    return { server, clock, signer, send, [Symbol.dispose]: () => server[Symbol.dispose]() };
  };

  test("goes out with it, over all other headers", async () => {
    using at = open();
    const sending = at.send();
    expect(at.signer.asked[0]?.headers).toMatchObject({ "x-own": "1", "content-type": "application/json" });
    expect(at.server.requests).toHaveLength(0);
    at.signer.release("Signed 1");
    (await sending).drain();
    expect(at.server.last.headers.get("authorization")).toBe("Signed 1");
    expect(at.signer.refusals).toEqual([]);
  });

  test("is never sent after the deadline of its answer", async () => {
    using at = open();
    const sending = at.send();
    at.clock.advance(5000);
    await expect(sending).rejects.toMatchObject({ code: "upstream_timeout" });
    at.signer.release("late");
    await Promise.resolve();
    expect(at.server.requests).toHaveLength(0);
  });

  test("is never sent after the client disconnected", async () => {
    using at = open();
    const leaving = new AbortController();
    const sending = at.send(leaving.signal);
    leaving.abort();
    await expect(sending).rejects.toBeInstanceOf(ClientDisconnected);
    at.signer.release("late");
    await Promise.resolve();
    expect(at.server.requests).toHaveLength(0);
  });

  test("fails with what its signer fails with", async () => {
    using at = open();
    const sending = at.send();
    at.signer.fail(ApiError.unavailable("upstream_unavailable", "no credentials"));
    await expect(sending).rejects.toMatchObject({ status: 503, message: "no credentials" });
  });

  test.each([401, 403])("reports that it was refused with %p", async (status) => {
    using at = open(status);
    const sending = at.send();
    at.signer.release("Signed 1");
    (await sending).drain();
    expect(at.signer.refusals.map(({ authorization }) => authorization)).toEqual(["Signed 1"]);
  });
});

test("a masked signature is shown as ***, and a signer's secret is known by itself", async () => {
  const { credentials } = senderOf(new HeldSigner());
  const masked = credentials.masked();
  const shown = await masked.signer!.sign(masked.keyed({ method: "POST", url: "https://up.test", headers: {} }));
  expect(shown.headers).toEqual({ "x-own": "***", authorization: "***" });
  expect([credentials.isIn("a secret"), credentials.isIn("none")]).toEqual([true, false]);
});

describe("which accounts authenticate without a key", () => {
  const auth = { kind: "entra", scope: "s" } as const;
  const [first] = providers.filter((one) => one.kind === "remote");
  test.each([
    ["one without a key", {}, undefined, undefined, true],
    ["none with a key", {}, "k", undefined, false],
    ["one whose option says so, whatever key it has", { auth: "entra" }, "k", undefined, true],
    ["none whose option says otherwise", { auth: "api_key" }, undefined, undefined, false],
    ["none that did not choose it, where it has to be chosen", {}, undefined, true, false],
    ["one that chose it", { auth: "entra" }, undefined, true, true],
  ] as const)("%s", (_, options, apiKey, isChosen, isSigned) => {
    const provider = { ...first!, auth: { ...auth, ...(isChosen && { isChosen }) } };
    const config = {
      ...{ name: "openai", dialect: "openai", baseUrl: "https://up.test", headers: {}, models: [], options },
      ...{ modelRules: [], timeouts, ...(apiKey !== undefined && { apiKey }) },
    };
    const asked: string[] = [];
    const signer = new HeldSigner();
    const accounts = new Accounts([config], [provider as never], (one, account) => {
      asked.push(`${one.kind} for ${account.name}`);
      return signer;
    });
    const { credentials } = accounts.find("openai")!;
    expect(asked).toEqual(isSigned ? ["entra for openai"] : []);
    expect(credentials.signer).toBe(isSigned ? signer : undefined);
    // A key that is not used is not sent either.
    const { headers } = credentials.keyed({ method: "POST", url: "https://up.test", headers: {} });
    if (isSigned) expect(headers).toEqual({});
  });
});
