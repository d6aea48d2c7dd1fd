import { afterEach, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { ApiError } from "../../src/protocols/errors.ts";
import { ClientDisconnected } from "../../src/upstream/client.ts";
import { MediaFetcher, type MediaOptions, type Resolve } from "../../src/upstream/media.ts";
import { ManualClock } from "../helpers/manual-clock.ts";
import { type UpstreamHandler, UpstreamServer } from "../helpers/upstream-server.ts";

const png = Uint8Array.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 1, 2, 3]);
const pngBase64 = "iVBORw0KGgoBAgM=";
const never = new AbortController().signal;
const param = "messages[0].content[1].image_url.url";

const open: Disposable[] = [];
afterEach(() => {
  for (const one of open.splice(0)) one[Symbol.dispose]();
});

function serve(handler: UpstreamHandler): UpstreamServer {
  const server = new UpstreamServer(handler);
  open.push(server);
  return server;
}

const image = (
  body: string | Uint8Array<ArrayBuffer> = png,
  headers: Record<string, string> = { "content-type": "image/png" },
) => new Response(body, { headers });

/** Fetches one URL. @returns the media, or the error's own words */
async function fetchOne(url: string, options: MediaOptions, signal = never) {
  try {
    return (await new MediaFetcher(options).fetch([{ url, param }], signal)).get(url);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    expect(error.fields()).toMatchObject({ type: "invalid_request_error", param, code: "invalid_value" });
    expect(error.status).toBe(400);
    return error.message.replace(`The URL at ${param} `, "");
  }
}

const anywhere: MediaOptions = { allowPrivate: true };

describe("what is fetched", () => {
  test("over TLS only what says where it ends", async () => {
    const told = (headers: Record<string, string>) =>
      fetchOne("https://cats.test/cat.png", {
        resolve: async () => ["93.184.216.34"],
        fetch: async () => image(png, { "content-type": "image/png", ...headers }),
      });
    expect(await told({})).toBe("does not say where it ends.");
    for (const headers of [{ "content-length": String(png.length) }, { "transfer-encoding": "chunked" }])
      expect(await told(headers)).toMatchObject({ base64: pngBase64 });
  });

  test("bytes and type, asking for nothing but that", async () => {
    const server = serve(() => image(png, { "content-type": "Image/PNG; charset=binary", "set-cookie": "a=b" }));
    expect(await fetchOne(`${server.url}/cat.png?size=2#part`, anywhere)).toEqual({
      mimeType: "image/png",
      base64: pngBase64,
    });
    expect(server.last.method).toBe("GET");
    expect(server.last.path).toBe("/cat.png?size=2");
    const headers = Object.fromEntries(server.last.headers);
    expect(headers).toEqual({
      host: server.url.slice("http://".length),
      accept: "image/*, audio/*, video/*, application/pdf",
      "accept-encoding": "identity",
      "user-agent": "troupe",
    });
  });

  test("each URL once, several at a time but not all", async () => {
    let running = 0;
    let most = 0;
    const release: (() => void)[] = [];
    const server = serve(async () => {
      running += 1;
      most = Math.max(most, running);
      await new Promise<void>((go) => release.push(go));
      running -= 1;
      return image();
    });
    const urls = [1, 2, 3, 4, 5].map((n) => `${server.url}/${n}`);
    const wanted = [...urls, urls[0]!].map((url) => ({ url, param }));
    const fetching = new MediaFetcher({ ...anywhere, limits: { concurrent: 2 } }).fetch(wanted, never);
    for (let seen = 1; seen <= 5; seen += 1) {
      await server.received(Math.min(seen + 1, 5));
      release.shift()!();
    }
    const fetched = await fetching;
    expect([...fetched.keys()].sort()).toEqual(urls);
    expect(server.requests.length).toBe(5);
    expect(most).toBe(2);
  });

  const typed: [string, string | undefined, string | Uint8Array<ArrayBuffer>, string][] = [
    ["image/jpg", "image/jpg", png, "image/jpeg"],
    ["a PDF", "application/pdf", "%PDF-1.7", "application/pdf"],
    ["audio", "audio/mpeg", "ID3", "audio/mpeg"],
    ["a type the server does not know", "binary/octet-stream", png, "image/png"],
    ["the same, a PDF", "application/octet-stream", "%PDF-1.4 …", "application/pdf"],
    ["the same, WebP", "application/octet-stream", "RIFF....WEBPVP8 ", "image/webp"],
    ["no type at all", undefined, Uint8Array.from([0xff, 0xd8, 0xff, 0xe0]), "image/jpeg"],
  ];
  for (const [title, type, body, mimeType] of typed) {
    test(`${title} is taken as ${mimeType}`, async () => {
      const server = serve(() => new Response(body, type === undefined ? {} : { headers: { "content-type": type } }));
      expect(await fetchOne(server.url, anywhere)).toMatchObject({ mimeType });
    });
  }
});

describe("what is refused", () => {
  const refused: [string, UpstreamHandler, string][] = [
    [
      "another type",
      () => image("<html>", { "content-type": "text/html" }),
      "holds something else than an image, audio, video or a PDF.",
    ],
    [
      "unknown bytes",
      () => image("PK..", { "content-type": "application/octet-stream" }),
      "holds nothing that is known as an image, audio, video or PDF.",
    ],
    ["a missing file", () => new Response("no", { status: 404 }), "answers with status 404."],
    ["a redirect to nowhere", () => new Response(null, { status: 302 }), "answers with status 302."],
    [
      "a compressed answer",
      () => image(Bun.gzipSync(png), { "content-type": "image/png", "content-encoding": "gzip" }),
      "answers in compressed form.",
    ],
    [
      "a redirect to a file",
      () => new Response(null, { status: 301, headers: { location: "file:///etc/passwd" } }),
      "redirects to something else than http or https.",
    ],
    [
      "a redirect with credentials",
      () => new Response(null, { status: 307, headers: { location: "http://u:p@example.com/" } }),
      "holds credentials.",
    ],
  ];
  for (const [title, handler, message] of refused) {
    test(title, async () => expect(await fetchOne(serve(handler).url, anywhere)).toBe(message));
  }

  test("a body that says it is too large, without reading it", async () => {
    const server = serve(() => image(new Uint8Array(2000)));
    expect(await fetchOne(server.url, { ...anywhere, limits: { itemBytes: 1999 } })).toBe(
      "holds more than 1999 bytes.",
    );
    expect(await fetchOne(server.url, { ...anywhere, limits: { itemBytes: 2000 } })).toMatchObject({
      mimeType: "image/png",
    });
  });

  test("an endless body, at the limit", async () => {
    let sent = 0;
    const server = serve(() => {
      const endless = new ReadableStream({
        pull(controller) {
          sent += 64 * 1024;
          controller.enqueue(new Uint8Array(64 * 1024));
        },
      });
      return new Response(endless, { headers: { "content-type": "image/png" } });
    });
    const limits = { itemBytes: 1024 * 1024 };
    expect(await fetchOne(server.url, { ...anywhere, limits })).toBe("holds more than 1048576 bytes.");
    expect(sent).toBeLessThan(16 * 1024 * 1024);
  });

  test("too much in all items together", async () => {
    const server = serve(() => image(new Uint8Array(600)));
    const fetcher = new MediaFetcher({ ...anywhere, limits: { totalBytes: 1000, itemBytes: 1000, concurrent: 1 } });
    const wanted = ["a", "b"].map((name) => ({ url: `${server.url}/${name}`, param: `place.${name}` }));
    const fault = await fetcher.fetch(wanted, never).catch((error) => error);
    expect(fault).toBeInstanceOf(ApiError);
    expect(fault.param).toBe("place.b");
    expect(fault.message).toBe("The URL at place.b and the others hold too much together.");
  });

  test("more URLs than a request may name, before any is fetched", async () => {
    const server = serve(() => image());
    const wanted = Array.from({ length: 17 }, (_, at) => ({ url: `${server.url}/${at}`, param: `place[${at}]` }));
    const fault = await new MediaFetcher(anywhere).fetch(wanted, never).catch((error) => error);
    expect(fault.param).toBe("place[16]");
    expect(fault.message).toBe("A request may name at most 16 URLs.");
    expect(server.requests.length).toBe(0);
    expect((await new MediaFetcher(anywhere).fetch(wanted.slice(1), never)).size).toBe(16);
  });

  test("a slow drip, when its time is over", async () => {
    const clock = new ManualClock();
    const gone = Promise.withResolvers<void>();
    const server = serve((request) => {
      request.signal.addEventListener("abort", () => gone.resolve());
      const drip = new ReadableStream({ start: (controller) => controller.enqueue(png) });
      return new Response(drip, { headers: { "content-type": "image/png" } });
    });
    const fetching = fetchOne(server.url, { ...anywhere, clock });
    await server.received(1);
    clock.advance(10_000);
    expect(await fetching).toBe("did not answer in full within 10 s.");
    await gone.promise;
  });

  test("a host name whose look-up never ends, when its time is over", async () => {
    const clock = new ManualClock();
    const asked = Promise.withResolvers<void>();
    const resolveForever: Resolve = () => {
      asked.resolve();
      return new Promise(() => {});
    };
    const fetching = fetchOne("http://slow.test/", { clock, resolve: resolveForever });
    await asked.promise;
    clock.advance(10_000);
    expect(await fetching).toBe("did not answer in full within 10 s.");
  });

  test("a server that breaks off", async () => {
    const server = Bun.listen({
      port: 0,
      hostname: "127.0.0.1",
      socket: {
        data(socket) {
          socket.end("HTTP/1.1 200 OK\r\ncontent-type: image/png\r\ncontent-length: 100\r\n\r\nabc");
        },
      },
    });
    open.push({ [Symbol.dispose]: () => server.stop(true) });
    expect(await fetchOne(`http://127.0.0.1:${server.port}/`, anywhere)).toBe("could not be read to its end.");
  });
});

test("a client that leaves ends the fetch", async () => {
  const gone = Promise.withResolvers<void>();
  const server = serve((request) => {
    request.signal.addEventListener("abort", () => gone.resolve());
    return new Promise(() => {});
  });
  const client = new AbortController();
  const fetching = new MediaFetcher(anywhere).fetch([{ url: server.url, param }], client.signal);
  await server.received(1);
  client.abort();
  expect(await fetching.catch((error) => error)).toBeInstanceOf(ClientDisconnected);
  await gone.promise;
});

describe("where it may lead", () => {
  const unreached: NonNullable<MediaOptions["fetch"]> = async (url) => {
    throw new Error(`a connection to ${url} was made`);
  };
  const inside = "does not lead to port 80 or 443 of a public host.";
  const forbidden: [string, string][] = [
    ["http://127.0.0.1/", inside],
    ["http://127.1/", inside],
    ["http://2130706433/", inside],
    ["http://0x7f000001/", inside],
    ["http://0/", inside],
    ["http://10.1.2.3/", inside],
    ["http://100.100.100.200/", inside],
    ["http://169.254.169.254/latest/meta-data/", inside],
    ["http://168.63.129.16/", inside],
    ["http://172.31.255.255/", inside],
    ["http://192.168.0.1/", inside],
    ["http://224.0.0.1/", inside],
    ["http://255.255.255.255/", inside],
    ["http://[::1]/", inside],
    ["http://[::]/", inside],
    ["http://[::ffff:127.0.0.1]/", inside],
    ["http://[::ffff:8.8.8.8]/", inside],
    ["http://[::127.0.0.1]/", inside],
    ["http://[64:ff9b::7f00:1]/", inside],
    ["http://[2002:7f00:1::]/", inside],
    ["http://[fd00:ec2::254]/", inside],
    ["http://[fe80::1]/", inside],
    ["http://[ff02::1]/", inside],
    ["http://8.8.8.8:22/", inside],
    ["https://8.8.8.8:8443/", inside],
    ["http://localhost/", inside],
    ["http://LOCALHOST./", inside],
    ["http://user@8.8.8.8/", "holds credentials."],
    ["http://:secret@8.8.8.8/", "holds credentials."],
    ["ftp://8.8.8.8/", "is no http or https URL."],
    ["file:///etc/passwd", "is no http or https URL."],
    ["http://", "is no http or https URL."],
    ["cat.png", "is no http or https URL."],
  ];
  for (const [url, message] of forbidden) {
    test(`not ${url}`, async () => expect(await fetchOne(url, { fetch: unreached })).toBe(message));
  }

  test("not where any one of a name's addresses is inside", async () => {
    const addresses = ["93.184.216.34", "10.0.0.1"];
    expect(await fetchOne("http://mixed.test/", { fetch: unreached, resolve: async () => addresses })).toBe(inside);
  });

  test("an unknown name and one that leads inside read the same", async () => {
    const unknown: Resolve = () => Promise.reject(new Error("ENOTFOUND"));
    expect(await fetchOne("http://unknown.test/", { fetch: unreached, resolve: unknown })).toBe(inside);
    expect(await fetchOne("http://none.test/", { fetch: unreached, resolve: async () => [] })).toBe(inside);
  });

  test("to public addresses at the scheme's own port, the IPv4 ones first, and to the next when one fails", async () => {
    const tried: unknown[] = [];
    const fetch: NonNullable<MediaOptions["fetch"]> = async (url, init) => {
      tried.push([
        url,
        new Headers(init.headers).get("host"),
        (init.tls as { serverName?: string } | undefined)?.serverName,
      ]);
      if (tried.length < 2) throw new Error("unreachable");
      return image(png, { "content-type": "image/png", "content-length": String(png.length) });
    };
    const resolve: Resolve = async () => ["2606:4700::6810:84e5", "93.184.216.34"];
    expect(await fetchOne("https://pictures.test/a?b", { fetch, resolve })).toMatchObject({ base64: pngBase64 });
    expect(tried).toEqual([
      ["https://93.184.216.34/a?b", "pictures.test", "pictures.test"],
      ["https://[2606:4700::6810:84e5]/a?b", "pictures.test", "pictures.test"],
    ]);
  });

  test("nowhere else when a server can't be reached", async () => {
    const resolve: Resolve = async () => ["93.184.216.34"];
    expect(await fetchOne("http://down.test/", { fetch: unreached, resolve })).toBe(
      "leads to a server that can't be reached.",
    );
  });
});

/** Stands in for a name server: each look-up of a name takes its next answer. */
function names(table: Record<string, string[]>): { resolve: Resolve; asked: string[] } {
  const asked: string[] = [];
  return {
    asked,
    resolve: async (host) => {
      asked.push(host);
      const address = table[host]?.shift();
      return address === undefined ? [] : [address];
    },
  };
}

describe("the address that was checked is the one that is used", () => {
  /** As if 127.0.0.1 were the public internet, and every other address of this machine its inner network. */
  const permits = (address: string) => address === "127.0.0.1";

  test("a name is looked up once and then no more, whatever its server says later", async () => {
    const server = serve(() => image());
    const { resolve, asked } = names({ "rebind.test": ["127.0.0.1", "127.0.0.2"] });
    const url = server.url.replace("127.0.0.1", "rebind.test");
    expect(await fetchOne(url, { permits, resolve })).toMatchObject({ base64: pngBase64 });
    expect(asked).toEqual(["rebind.test"]);
    expect(server.last.headers.get("host")).toBe(url.slice("http://".length));
    expect(await fetchOne(url, { permits, resolve })).toContain("does not lead to port 80");
    expect(asked).toEqual(["rebind.test", "rebind.test"]);
    expect(server.requests.length).toBe(1);
  });

  test("a redirect is followed by the same rules, relative ones too", async () => {
    const server = serve(({ path }) =>
      path === "/moved" ? image() : new Response(null, { status: 308, headers: { location: "/moved" } }),
    );
    const { resolve, asked } = names({ "a.test": ["127.0.0.1", "127.0.0.1"] });
    const url = `${server.url.replace("127.0.0.1", "a.test")}/first`;
    expect(await fetchOne(url, { permits, resolve })).toMatchObject({ base64: pngBase64 });
    expect(server.requests.map(({ path }) => path)).toEqual(["/first", "/moved"]);
    expect(asked).toEqual(["a.test", "a.test"]);
  });

  test("a redirect inside is refused, by address, by name and by a name that changed", async () => {
    let location = "";
    const server = serve(() => new Response("secret", { status: 302, headers: { location } }));
    const { port } = new URL(server.url);
    for (location of [
      `http://127.0.0.2:${port}/`,
      `http://[::1]:${port}/`,
      `http://inner.test:${port}/`,
      `http://a.test:${port}/again`,
      `//127.0.0.3:${port}/`,
    ]) {
      const { resolve } = names({ "a.test": ["127.0.0.1", "127.0.0.9"], "inner.test": ["127.0.0.2"] });
      const before = server.requests.length;
      expect(await fetchOne(`http://a.test:${port}/`, { permits, resolve })).toContain("does not lead to port 80");
      expect(server.requests.length).toBe(before + 1);
    }
  });

  test("three redirects and no more", async () => {
    const server = serve(({ path }) => {
      const left = Number(path.slice(1));
      return left === 0 ? image() : new Response(null, { status: 302, headers: { location: `/${left - 1}` } });
    });
    expect(await fetchOne(`${server.url}/3`, { permits })).toMatchObject({ base64: pngBase64 });
    expect(await fetchOne(`${server.url}/4`, { permits })).toBe("redirects more than 3 times.");
    expect(server.requests.length).toBe(8);
  });

  test("https: the certificate must be the name's, though the connection goes to the address", async () => {
    const pem = (name: string) => readFileSync(resolve(import.meta.dir, "../fixtures/media", name), "utf8");
    const server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      tls: { cert: pem("cert.pem"), key: pem("key.pem") },
      fetch: () => image(),
    });
    open.push({ [Symbol.dispose]: () => server.stop(true) });
    const trusting: NonNullable<MediaOptions["fetch"]> = (url, init) =>
      fetch(url, { ...init, tls: { ...init.tls, ca: pem("cert.pem") } } as BunFetchRequestInit);
    const options: MediaOptions = { permits, fetch: trusting, resolve: async () => ["127.0.0.1"] };
    expect(await fetchOne(`https://media.test:${server.port}/`, options)).toMatchObject({ base64: pngBase64 });
    expect(await fetchOne(`https://other.test:${server.port}/`, options)).toBe(
      "leads to a server that can't be reached.",
    );
    expect(await fetchOne(`https://127.0.0.1:${server.port}/`, options)).toBe(
      "leads to a server that can't be reached.",
    );
  });
});

test("only addresses of the public internet are public", async () => {
  const outside = ["1.1.1.1", "8.8.8.8", "172.15.0.1", "172.32.0.1", "192.169.0.1", "100.128.0.1", "2606:4700::1111"];
  const inside = [
    "",
    "localhost",
    "127.0.0.1",
    "100.64.0.1",
    "192.0.2.1",
    "198.19.255.255",
    "fe80::1%lo",
    "2001:db8::1",
  ];
  const fetched = (address: string) =>
    fetchOne("http://media.test/", { resolve: async () => [address], fetch: async () => image() });
  for (const address of outside)
    expect([address, await fetched(address)]).toMatchObject([address, { base64: pngBase64 }]);
  for (const address of inside)
    expect([address, await fetched(address)]).toEqual([address, "does not lead to port 80 or 443 of a public host."]);
});
