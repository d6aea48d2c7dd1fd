import { describe, expect, test } from "bun:test";
import { systemClock } from "../../src/lib/clock.ts";
import { type Connects, Upstream } from "../../src/relay/upstream.ts";
import { HeldStream } from "../helpers/held-stream.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";

const timeouts = { connectSeconds: 5, firstByteSeconds: 5, idleSeconds: 5 };
const account = (baseUrl: string) => ({
  name: "up",
  baseUrl,
  headers: { "x-own": "1" },
  models: [],
  options: {},
  modelRules: [],
});
const request = (url: string) => ({ url, headers: { authorization: "Bearer k" }, body: '{"a":1}' });
const never = new AbortController().signal;

describe("Upstream", () => {
  test("sends body, headers and the account's own, and asks for no compression", async () => {
    using server = new UpstreamServer(() => jsonResponse({ ok: true }));
    const upstream = new Upstream(systemClock);
    const answer = await upstream.send(request(`${server.url}/v1/x`), account(server.url), timeouts, never);
    expect(new TextDecoder().decode(await answer.bytes())).toBe('{"ok":true}');
    const { headers, text, method, path } = server.last;
    expect([method, path, text]).toEqual(["POST", "/v1/x", '{"a":1}']);
    expect(headers.get("authorization")).toBe("Bearer k");
    expect(headers.get("x-own")).toBe("1");
    expect(headers.get("content-type")).toBe("application/json");
    expect(headers.get("accept-encoding")).toBe("identity");
  });

  test("the account's headers go before the adapter's, and are added to those that are lists", async () => {
    using server = new UpstreamServer(() => jsonResponse({}));
    const own = { ...account(server.url), headers: { "x-beta": "b,c", "x-list": "d", authorization: "Basic z" } };
    const sent = { ...request(server.url), headers: { authorization: "Bearer k", "x-beta": "a" } };
    const listed = { ...sent, listHeaders: ["x-beta", "x-list", "x-none"] };
    (await new Upstream(systemClock).send(listed, own, timeouts, never)).settle();
    expect(["authorization", "x-beta", "x-list", "x-none"].map((name) => server.last.headers.get(name))).toEqual([
      "Basic z",
      "a,b,c",
      "d",
      null,
    ]);
  });

  test("a redirect is never followed", async () => {
    using elsewhere = new UpstreamServer(() => jsonResponse({}));
    using server = new UpstreamServer(() => Response.redirect(elsewhere.url, 307));
    const answer = await new Upstream(systemClock).send(request(server.url), account(server.url), timeouts, never);
    expect(answer.status).toBe(307);
    answer.cancel();
    expect(elsewhere.requests).toHaveLength(0);
  });

  test("an address that takes no connection is a time-out of its own", async () => {
    const tried: number[] = [];
    const connects: Connects = async (_url, limitMs) => {
      tried.push(limitMs);
      return false;
    };
    using server = new UpstreamServer(() => new Promise(() => {}));
    const upstream = new Upstream(systemClock, { connects });
    const sending = upstream.send(
      request(server.url),
      account(server.url),
      { ...timeouts, connectSeconds: 0.1 },
      never,
    );
    expect(sending).rejects.toMatchObject({ status: 504, message: "up took no connection within 0.1 s." });
    await sending.catch(() => {});
    expect(tried).toEqual([50]);
  });

  test("an upstream that is merely slow is not cut by the connect time", async () => {
    const release = Promise.withResolvers<Response>();
    using server = new UpstreamServer(() => release.promise);
    const probed = Promise.withResolvers<void>();
    const upstream = new Upstream(systemClock, {
      connects: async () => {
        probed.resolve();
        return true;
      },
    });
    const sending = upstream.send(
      request(server.url),
      account(server.url),
      { ...timeouts, connectSeconds: 0.02 },
      never,
    );
    await probed.promise;
    release.resolve(jsonResponse({ late: true }));
    expect((await sending).status).toBe(200);
  });

  test("a slow reader is no silence of the upstream", async () => {
    const held = new HeldStream();
    using server = new UpstreamServer(() => held.response());
    held.send("one");
    const answer = await new Upstream(systemClock).send(
      request(server.url),
      account(server.url),
      { ...timeouts, idleSeconds: 0.03 },
      never,
    );
    expect(new TextDecoder().decode(await answer.read())).toBe("one");
    const waited = Promise.withResolvers<void>();
    systemClock.after(100, () => waited.resolve());
    await waited.promise;
    held.send("two");
    expect(new TextDecoder().decode(await answer.read())).toBe("two");
    // But when it is asked and says nothing, it is.
    expect(answer.read()).rejects.toMatchObject({ status: 504 });
    await held.cancelled;
  });

  test("a small answer that stays incomplete is silence, and a small one that breaks off is told", async () => {
    let breaksOff = false;
    using server = Bun.listen({
      hostname: "127.0.0.1",
      port: 0,
      socket: {
        data(socket) {
          socket.write("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf");
          if (breaksOff) socket.end();
        },
      },
    });
    const url = `http://127.0.0.1:${server.port}`;
    const upstream = new Upstream(systemClock);
    const limits = { ...timeouts, idleSeconds: 0.03 };
    const silent = await upstream.send(request(url), account(url), limits, never);
    await expect(silent.text()).rejects.toMatchObject({ status: 504, message: "up fell silent for 0.03 s." });
    breaksOff = true;
    const broken = upstream.send(request(url), account(url), timeouts, never).then((answer) => answer.text());
    await expect(broken).rejects.toMatchObject({ status: 503, code: "upstream_unreachable" });
  });

  test("a settled answer is read to its end, so that the connection serves again", async () => {
    const ports = new Set<number>();
    const server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch(incoming, bun) {
        ports.add(bun.requestIP(incoming)!.port);
        return new Response(new Blob(["x".repeat(10_000)]).stream());
      },
    });
    const upstream = new Upstream(systemClock);
    for (let call = 0; call < 5; call += 1) {
      const answer = await upstream.send(request(server.url.href), account(server.url.href), timeouts, never);
      await answer.read();
      answer.settle();
      answer.cancel();
      await new Promise((next) => setImmediate(next));
    }
    expect(ports.size).toBeLessThan(5);
    await server.stop(true);
  });
});
