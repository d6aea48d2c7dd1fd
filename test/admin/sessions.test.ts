import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ReadingNotes } from "../../src/admin/reading-notes.ts";
import { adminRoutes } from "../../src/admin/routes.ts";
import { browserName, sessionsPerKey } from "../../src/auth/sessions.ts";
import type { Host } from "../../src/call/context.ts";
import type { Config } from "../../src/config/config.ts";
import { createLogger } from "../../src/lib/process/log.ts";
import { ManualClock } from "../helpers/manual-clock.ts";
import { hasPostgres, PostgresServer } from "../helpers/postgres.ts";
import { Troupe, type TroupeOptions } from "../helpers/troupe.ts";

const listen: Config["listen"] = [
  { address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces: ["orchestrator", "gateway", "admin"] },
];
const firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
const minuteMs = 60_000;

type Json = Record<string, unknown>;
type Headers = Readonly<Record<string, string>>;
type Answer = { readonly status: number; readonly json: Json; readonly headers: globalThis.Headers };

/** A browser: keeps the cookie that it is given, and names the page's origin as browsers do. */
class Browser {
  readonly #troupe: Troupe;
  cookie = "";
  readonly headers: Headers;

  constructor(troupe: Troupe, headers: Headers = { "sec-fetch-site": "same-origin" }) {
    this.#troupe = troupe;
    this.headers = headers;
  }

  async ask(method: string, path: string, body?: unknown, headers = this.headers): Promise<Answer> {
    const answer = await this.#troupe.fetch(path, {
      method,
      key: null,
      headers: {
        "user-agent": firefox,
        ...(this.cookie !== "" && { cookie: `theme=dark; ${this.cookie}; other=1` }),
        ...(body !== undefined && { "content-type": "application/json" }),
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const given = answer.headers.get("set-cookie");
    if (given !== null) this.cookie = given.split(";")[0]!;
    return { status: answer.status, json: (await answer.json()) as Json, headers: answer.headers };
  }

  async signIn(key: string): Promise<Answer> {
    return this.ask("POST", "/admin/v1/session", { key });
  }
}

const errorOf = ({ status, json }: Answer) => {
  const { param, code } = (json["error"] ?? {}) as Json;
  return [status, code, param];
};
const dataOf = ({ json }: Answer) => json["data"] as Json[];

const adminKey = { name: "ops", tier: "pro", perMinute: 1_000_000, surfaces: ["admin"] } as const;

type House = { readonly troupe: Troupe; readonly key: string; readonly keyId: string; readonly clock: ManualClock };

/** @param work with a server whose clock stands still, and a key of its admin API */
async function inHouse(options: TroupeOptions, work: (house: House) => Promise<void>): Promise<void> {
  const clock = new ManualClock();
  await using troupe = await Troupe.start({ clock, ...options, config: { listen, ...options.config } });
  const { secret, key } = await troupe.server.services.keys.create(adminKey);
  await work({ troupe, key: secret, keyId: key.id, clock });
}

/** @param config of a new store */
function describeSessions(store: string, config: () => Promise<Partial<Config>>): void {
  const on = (what: string, work: (house: House) => Promise<void>) =>
    test(what, async () => inHouse({ config: await config() }, work));

  describe(store, () => {
    on("a key is exchanged for a cookie that scripts can't read, and the cookie stands for it", async (house) => {
      const { troupe, key, keyId } = house;
      const browser = new Browser(troupe);
      const { status, json, headers } = await browser.signIn(` ${key}\n`);
      expect(status).toBe(200);
      const port = new URL(troupe.url).port;
      expect(headers.get("set-cookie")).toMatch(
        new RegExp(`^troupe_session_${port}=[\\w-]{43}; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict$`),
      );
      expect(headers.get("cache-control")).toBe("no-store");
      const whoAmI = {
        object: "session",
        signed_in_by: "session",
        actor: keyId,
        key: { id: keyId, name: "ops" },
        user: null,
        id: expect.stringMatching(/^ses_/),
        created_at: "2023-11-14T22:13:20.000Z",
        expires_at: "2023-11-14T23:13:20.000Z",
        ends_at: "2023-11-15T10:13:20.000Z",
        version: troupe.server.services.build.version,
        write: false,
      };
      expect(json).toEqual(whoAmI);
      expect((await browser.ask("GET", "/admin/v1/session")).json).toEqual(whoAmI);
      const made = await browser.ask("POST", "/admin/v1/keys", { name: "alice" });
      expect(made.status).toBe(200);
      const acts = dataOf(await browser.ask("GET", "/admin/v1/audit"));
      expect(acts.map(({ act, actor }) => [act, actor])).toEqual([
        ["key.create", keyId],
        ["session.create", keyId],
      ]);
    });

    on("a wrong key gets a clear error, and no cookie", async ({ troupe, key }) => {
      const browser = new Browser(troupe);
      const other = await troupe.createKey({ name: "plain", tier: "pro" });
      expect(errorOf(await browser.signIn(other))).toEqual([403, "surface_not_allowed", ""]);
      expect(errorOf(await browser.signIn(`${key.slice(0, -1)}!`))).toEqual([401, "invalid_api_key", "key"]);
      expect(errorOf(await browser.ask("POST", "/admin/v1/session", {}))).toEqual([400, "missing_field", "key"]);
      expect(errorOf(await browser.ask("POST", "/admin/v1/session", { key, x: 1 }))).toEqual([
        400,
        "invalid_value",
        "x",
      ]);
      expect(browser.cookie).toBe("");
    });

    on("it ends when nobody uses it for an hour, and after twelve however it is used", async (house) => {
      const { troupe, key, clock } = house;
      const idle = new Browser(troupe);
      const busy = new Browser(troupe);
      await idle.signIn(key);
      await busy.signIn(key);
      for (let minutes = 0; minutes < 12 * 60; minutes += 30) {
        expect((await busy.ask("GET", "/admin/v1/session")).status).toBe(200);
        clock.advance(30 * minuteMs);
        if (minutes === 0) expect(dataOf(await busy.ask("GET", "/admin/v1/sessions")).length).toBe(2);
      }
      expect(errorOf(await idle.ask("GET", "/admin/v1/session"))).toEqual([401, "session_ended", ""]);
      expect(errorOf(await busy.ask("GET", "/admin/v1/session"))).toEqual([401, "session_ended", ""]);
      // What has ended goes with the next sign-in.
      await busy.signIn(key);
      expect((await troupe.server.services.store.sessions.list(10)).length).toBe(1);
    });

    on("its use is written once a minute at most", async ({ troupe, key, clock }) => {
      const browser = new Browser(troupe);
      await browser.signIn(key);
      const { sessions } = troupe.server.services.store;
      const usedAt = async () => (await sessions.list(1))[0]!.usedAt;
      const start = clock.now();
      clock.advance(minuteMs - 1);
      await browser.ask("GET", "/admin/v1/session");
      expect(await usedAt()).toBe(start);
      clock.advance(1);
      await browser.ask("GET", "/admin/v1/session");
      expect(await usedAt()).toBe(start + minuteMs);
    });

    on("what a page asks by itself is answered, and is no use of the session or of its key", async (house) => {
      const { troupe, key, keyId, clock } = house;
      const left = new Browser(troupe);
      await left.signIn(key);
      const { sessions } = troupe.server.services.store;
      const start = clock.now();
      const refresh = () => left.ask("GET", "/admin/v1/session", undefined, { "x-troupe-refresh": "1" });
      for (let minutes = 0; minutes < 59; minutes += 1) {
        clock.advance(minuteMs);
        expect((await refresh()).status).toBe(200);
      }
      const [row] = await sessions.list(1);
      const used = (await troupe.server.services.keys.show(keyId)).lastUsedAt;
      expect([row!.usedAt, used]).toEqual([start, start]);
      clock.advance(minuteMs - 1);
      expect((await refresh()).status).toBe(200);
      clock.advance(1);
      expect(errorOf(await refresh())).toEqual([401, "session_ended", ""]);
    });

    on("signing in anew ends the one before; signing out ends it", async ({ troupe, key }) => {
      const browser = new Browser(troupe);
      await browser.signIn(key);
      const first = browser.cookie;
      await browser.signIn(key);
      expect(browser.cookie).not.toBe(first);
      const stolen = new Browser(troupe);
      stolen.cookie = first;
      expect((await stolen.ask("GET", "/admin/v1/session")).status).toBe(401);
      stolen.cookie = browser.cookie;
      const { id } = (await browser.ask("GET", "/admin/v1/session")).json;
      const out = await browser.ask("DELETE", "/admin/v1/session");
      expect(out.json).toEqual({ object: "session.deleted", id, deleted: true });
      expect(out.headers.get("set-cookie")).toMatch(
        /^troupe_session_\d+=; Path=\/; Max-Age=0; HttpOnly; SameSite=Strict$/,
      );
      expect((await stolen.ask("GET", "/admin/v1/session")).status).toBe(401);
    });

    on("sessions are listed without their secrets, and ended by others", async ({ troupe, key, keyId }) => {
      const one = new Browser(troupe);
      const two = new Browser(troupe);
      await one.signIn(key);
      await two.signIn(key);
      const list = await one.ask("GET", "/admin/v1/sessions?limit=1");
      expect(list.json).toMatchObject({ object: "list", has_more: true });
      expect(dataOf(list)).toEqual([
        {
          object: "session",
          id: expect.stringMatching(/^ses_/),
          key: { id: keyId, name: "ops" },
          client: "Firefox on Linux",
          created_at: "2023-11-14T22:13:20.000Z",
          last_used_at: "2023-11-14T22:13:20.000Z",
          expires_at: "2023-11-14T23:13:20.000Z",
          ends_at: "2023-11-15T10:13:20.000Z",
          is_current: false,
        },
      ]);
      const [{ id } = {}] = dataOf(list);
      const next = dataOf(await one.ask("GET", `/admin/v1/sessions?limit=1&after=${id}`));
      expect(next.map(({ is_current }) => is_current)).toEqual([true]);
      expect((await one.ask("DELETE", `/admin/v1/sessions/${id}`)).json["deleted"]).toBe(true);
      expect(errorOf(await one.ask("DELETE", `/admin/v1/sessions/${id}`))).toEqual([404, "not_found", "id"]);
      expect((await two.ask("GET", "/admin/v1/keys")).status).toBe(401);
      const [act] = dataOf(await one.ask("GET", "/admin/v1/audit?act=session.end"));
      expect(act).toMatchObject({ subject: id, before: { key: keyId, client: "Firefox on Linux" } });
    });

    on("it ends with its key, whatever happens to that", async ({ troupe, keyId, clock }) => {
      const { keys } = troupe.server.services;
      const lost: Record<string, (id: string) => Promise<unknown>> = {
        revoked: (id) => keys.revoke(id),
        rotated: (id) => keys.rotate(id),
        "without the surface": (id) => keys.update(id, { surfaces: ["gateway"] }),
        expired: async (id) => {
          await keys.update(id, { expiresAt: clock.now() + 1 });
          clock.advance(1);
        },
      };
      expect(keyId).toBeDefined();
      for (const [what, lose] of Object.entries(lost)) {
        const made = await keys.create({ ...adminKey, name: what });
        const browser = new Browser(troupe);
        await browser.signIn(made.secret);
        expect((await browser.ask("GET", "/admin/v1/keys")).status).toBe(200);
        await lose(made.key.id);
        expect([what, ...errorOf(await browser.ask("GET", "/admin/v1/keys"))]).toEqual([
          what,
          401,
          "session_ended",
          "",
        ]);
        expect(errorOf(await browser.ask("POST", "/admin/v1/keys", { name: "x" }))[0]).toBe(401);
      }
    });

    on("a key has a bounded number: one more ends its oldest", async ({ troupe, key }) => {
      const first = new Browser(troupe);
      await first.signIn(key);
      for (let times = 0; times < sessionsPerKey; times += 1) {
        expect((await new Browser(troupe).signIn(key)).status).toBe(200);
      }
      expect((await first.ask("GET", "/admin/v1/session")).status).toBe(401);
      const last = new Browser(troupe);
      await last.signIn(key);
      expect(dataOf(await last.ask("GET", "/admin/v1/sessions?limit=100")).length).toBe(sessionsPerKey);
    });
  });
}

describeSessions("sessions in SQLite", async () => ({}));

describe.skipIf(!hasPostgres)("with a PostgreSQL server", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await PostgresServer.start();
  });
  afterAll(async () => {
    await server[Symbol.asyncDispose]();
  });
  const store = async () => ({
    store: {
      url: await server.createDatabase(),
      pool: 4,
      statementSeconds: 10,
      leaseSeconds: 15,
      keysWithoutDatabaseSeconds: 60,
    },
  });
  describeSessions("sessions in PostgreSQL", store);

  test("one that a node begins counts on another, and is ended from there", async () => {
    const config = { listen, ...(await store()) };
    await using one = await Troupe.start({ config });
    await using two = await Troupe.start({ config });
    const key = await one.createKey(adminKey);
    const browser = new Browser(one);
    await browser.signIn(key);
    const elsewhere = new Browser(two);
    elsewhere.cookie = browser.cookie.replace(new URL(one.url).port, new URL(two.url).port);
    expect((await elsewhere.ask("GET", "/admin/v1/session")).status).toBe(200);
    await elsewhere.ask("DELETE", "/admin/v1/session");
    expect((await browser.ask("GET", "/admin/v1/session")).status).toBe(401);
  });
});

describe("requests that other pages make", () => {
  test("change nothing by a session, whatever method they use", async () => {
    await inHouse({ config: { cors: { origins: ["https://ops.example"] } } }, async ({ troupe, key }) => {
      const browser = new Browser(troupe);
      await browser.signIn(key);
      const own = troupe.url;
      const refused: Headers[] = [
        {},
        { "sec-fetch-site": "cross-site" },
        { "sec-fetch-site": "same-site" },
        { "sec-fetch-site": "none" },
        { "sec-fetch-site": "same-site", origin: own },
        { "sec-fetch-site": "cross-site", origin: own },
        { origin: "null" },
        { origin: "https://evil.example" },
        { origin: "https://ops.example" },
        { origin: own.replace(/\d+$/, "1") },
        { origin: own.replace("http:", "https:") },
        { origin: `${own}/console` },
        { origin: `${own}?a` },
      ];
      const ask = (method: string, headers: Headers) =>
        browser.ask(method, "/admin/v1/keys/key_1", method === "GET" ? undefined : {}, headers);
      for (const headers of refused) {
        for (const method of ["PATCH", "POST", "PUT", "DELETE"]) {
          const path = method === "POST" ? "/admin/v1/keys" : method === "PATCH" ? "/admin/v1/keys/key_1" : undefined;
          const target = path ?? (method === "PUT" ? "/admin/v1/budgets/all/day" : "/admin/v1/budgets/all/day");
          const answer = await browser.ask(method, target, method === "DELETE" ? undefined : { name: "x" }, headers);
          expect([method, headers, answer.status, (answer.json["error"] as Json)["code"]]).toEqual([
            method,
            headers,
            403,
            "host_not_allowed",
          ]);
        }
        expect((await ask("GET", headers)).status).toBe(404);
      }
      // A body without a type is what a page of another origin could send unasked.
      const untyped = await troupe.fetch("/admin/v1/keys", {
        method: "POST",
        key: null,
        headers: { cookie: browser.cookie, "sec-fetch-site": "same-origin" },
        body: Buffer.from('{"name":"x"}'),
      });
      expect(untyped.status).toBe(415);
      for (const headers of [{ "sec-fetch-site": "same-origin" }, { origin: own }]) {
        expect((await browser.ask("POST", "/admin/v1/keys", { name: "x" }, headers)).status).toBe(200);
      }
      // Behind a proxy that renames the host the browser's own word counts.
      const behind = { "sec-fetch-site": "same-origin", origin: "https://troupe.example" };
      expect((await browser.ask("POST", "/admin/v1/keys", { name: "x" }, behind)).status).toBe(200);
      // A key in a header needs none of it.
      const byKey = await troupe.post("/admin/v1/keys", { name: "x" }, { key, headers: { cookie: browser.cookie } });
      expect(byKey.status).toBe(200);
    });
  });

  test("sign nobody in", async () => {
    await inHouse({}, async ({ troupe, key }) => {
      const browser = new Browser(troupe, { origin: "https://evil.example", "sec-fetch-site": "cross-site" });
      expect(errorOf(await browser.signIn(key))[0]).toBe(403);
      expect(browser.cookie).toBe("");
    });
  });
});

test("a session counts on the admin surface alone", async () => {
  await inHouse({}, async ({ troupe }) => {
    const key = troupe.server.services.firstKey!.secret;
    const browser = new Browser(troupe);
    await browser.signIn(key);
    for (const path of ["/v1/models", "/gateway/v1/models", "/v1/usage"])
      expect([path, (await browser.ask("GET", path)).status]).toEqual([path, 401]);
    expect((await browser.ask("GET", "/admin/v1/models")).status).toBe(200);
  });
});

test("cookies that nobody was given are refused, and counted as any guess", async () => {
  await inHouse({ config: {} }, async ({ troupe, key }) => {
    const browser = new Browser(troupe);
    await browser.signIn(key);
    const [name, secret] = browser.cookie.split("=") as [string, string];
    for (const wrong of ["", "x", secret.slice(1), `${secret}a`, secret.toUpperCase(), "%00", '"', "a".repeat(5_000)]) {
      browser.cookie = `${name}=${wrong}`;
      const answer = await browser.ask("GET", "/admin/v1/keys");
      expect([wrong, answer.status, answer.headers.get("x-ratelimit-limit")]).toEqual([wrong, 401, "600"]);
    }
    // Under TLS only the name counts that no unencrypted answer can set.
    browser.cookie = `__Host-${name}=${secret}`;
    expect((await browser.ask("GET", "/admin/v1/keys")).status).toBe(401);
  });
});

test("under TLS the cookie is bound to it, where a trusted proxy says so", async () => {
  await inHouse({ config: { trustedProxies: ["127.0.0.1"] } }, async ({ troupe, key }) => {
    const headers = { "sec-fetch-site": "same-origin", "x-forwarded-proto": "https" };
    const browser = new Browser(troupe, headers);
    const { headers: given } = await browser.signIn(key);
    expect(given.get("set-cookie")).toMatch(
      /^__Host-troupe_session_\d+=.*; Path=\/; .*HttpOnly; SameSite=Strict; Secure$/,
    );
    expect((await browser.ask("GET", "/admin/v1/session")).status).toBe(200);
    expect((await browser.ask("GET", "/admin/v1/session", undefined, {})).status).toBe(401);
  });
  await inHouse({}, async ({ troupe, key }) => {
    const browser = new Browser(troupe, { "x-forwarded-proto": "https" });
    const { headers } = await browser.signIn(key);
    expect(headers.get("set-cookie")).not.toContain("Secure");
  });
});

test("under TLS of its own too", async () => {
  const tls = { cert: "test/fixtures/tls/cert.pem", key: "test/fixtures/tls/key.pem" };
  const secure = listen.map((one) => ({ ...one, tls }));
  await inHouse({ config: { listen: secure } }, async ({ troupe, key }) => {
    const ca = readFileSync(tls.cert, "utf8");
    const ask = (init: RequestInit) => fetch(`${troupe.url}/admin/v1/session`, { ...init, tls: { ca } });
    const headers = { "content-type": "application/json" };
    const made = await ask({ method: "POST", headers, body: JSON.stringify({ key }) });
    const cookie = made.headers.get("set-cookie")!;
    expect(cookie).toMatch(
      /^__Host-troupe_session_\d+=[\w-]{43}; Path=\/; Max-Age=43200; HttpOnly; SameSite=Strict; Secure$/,
    );
    expect((await ask({ headers: { cookie: cookie.split(";")[0]! } })).status).toBe(200);
  });
});

test("a page that points its own name at this machine is refused with a session as without one", async () => {
  await inHouse({}, async ({ troupe, key }) => {
    const browser = new Browser(troupe);
    await browser.signIn(key);
    const { port } = new URL(troupe.url);
    const headers = { "sec-fetch-site": "same-origin", host: `evil.example:${port}` };
    for (const [method, path] of [
      ["GET", "/admin/v1/keys"],
      ["POST", "/admin/v1/session"],
    ] as const)
      expect(errorOf(await browser.ask(method, path, method === "POST" ? { key } : undefined, headers))).toEqual([
        403,
        "host_not_allowed",
        "host",
      ]);
  });
});

test("who reads the same words again and again leaves one line in ten minutes", async () => {
  const notes = new ReadingNotes();
  let lines = 0;
  const read = (at: number, actor: string, subject: string) =>
    notes.once(at, actor, subject, async () => {
      lines += 1;
    });
  for (const [at, actor, subject, recorded] of [
    [0, "key_1", "req_1", 1],
    [599_999, "key_1", "req_1", 1],
    [599_999, "key_2", "req_1", 2],
    [599_999, "key_1", "req_2", 3],
    [600_000, "key_1", "req_1", 4],
  ] as const) {
    await read(at, actor, subject);
    expect(lines).toBe(recorded);
  }
  // What could not be recorded is not taken as recorded.
  const failing = notes.once(0, "key_3", "req_1", () => Promise.reject(new Error("full")));
  await expect(failing).rejects.toThrow("full");
  await read(0, "key_3", "req_1");
  expect(lines).toBe(5);
});

test("failed tries to sign in are bounded for each address", async () => {
  await inHouse({}, async ({ troupe, key, clock }) => {
    const browser = new Browser(troupe);
    const wrong = `${key.slice(0, -6)}000000`;
    for (let tries = 0; tries < 12; tries += 1) expect((await browser.signIn(key)).status).toBe(200);
    for (let tries = 0; tries < 10; tries += 1) expect((await browser.signIn(wrong)).status).toBe(401);
    const refused = await browser.signIn(key);
    expect([...errorOf(refused), refused.headers.get("retry-after")]).toEqual([429, "rate_limit_exceeded", "", "60"]);
    clock.advance(minuteMs);
    expect((await browser.signIn(key)).status).toBe(200);
  });
});

test("a user whom a trusted proxy names is signed in already", async () => {
  const config = { admin: { trustedUserHeader: "x-forwarded-user" }, trustedProxies: ["127.0.0.1"] };
  await inHouse({ config }, async ({ troupe }) => {
    const browser = new Browser(troupe, { "x-forwarded-user": "ada@example.com" });
    expect((await browser.ask("GET", "/admin/v1/session")).json).toMatchObject({
      signed_in_by: "proxy",
      actor: "user:ada@example.com",
      user: "ada@example.com",
      key: null,
      id: null,
      expires_at: null,
    });
    expect(errorOf(await browser.ask("DELETE", "/admin/v1/session"))).toEqual([404, "not_found", ""]);
  });
});

test("neither the log nor the store has the cookie or the key", async () => {
  const lines: string[] = [];
  const log = createLogger(
    { write: (line: string) => void lines.push(line), flush: () => {} },
    { level: "debug", pretty: false, now: () => 0 },
  );
  await inHouse({ log }, async ({ troupe, key }) => {
    const browser = new Browser(troupe);
    await browser.signIn(`${key.slice(0, -1)}!`);
    await browser.signIn(key);
    const secret = browser.cookie.split("=")[1]!;
    await browser.ask("POST", "/admin/v1/keys", { name: "x" });
    await browser.ask("GET", "/admin/v1/session");
    await browser.ask("DELETE", "/admin/v1/session");
    await troupe.server.services.keys.flush();
    const files = readdirSync(troupe.data, { recursive: true, withFileTypes: true }).filter(
      (entry) => entry.isFile() && entry.name.startsWith("troupe.db"),
    );
    expect(files.length).toBeGreaterThan(0);
    const kept = files.map(({ parentPath, name }) => readFileSync(join(parentPath, name)).toString("latin1")).join("");
    await log.flush();
    const logged = lines.join("");
    expect(logged).toContain("session.create");
    for (const text of [secret, key.slice(16), key.slice(0, -1)]) {
      expect(kept.includes(text)).toBe(false);
      expect(logged.includes(text)).toBe(false);
    }
  });
});

test("every route refuses who has neither a key nor a session, and a session lets each in", async () => {
  await inHouse({}, async ({ troupe, key }) => {
    const routes = adminRoutes({} as Host, "/admin").api.routes.filter(
      ({ method, path }) => !(method === "POST" && path === "/admin/v1/session"),
    );
    expect(routes.length).toBeGreaterThan(25);
    const stranger = new Browser(troupe);
    const plain = await troupe.createKey({ name: "plain", tier: "pro", perMinute: 1_000_000 });
    const browser = new Browser(troupe);
    await browser.signIn(key);
    for (const { method, path } of routes) {
      const target = path.replaceAll(/:\w+/g, "none");
      const where = `${method} ${target}`;
      const refused = await stranger.ask(method, target);
      expect([where, ...errorOf(refused)]).toEqual([where, 401, "invalid_api_key", ""]);
      expect(refused.headers.get("cache-control")).toBe("no-store");
      expect([where, (await troupe.fetch(target, { method, key: plain })).status]).toEqual([where, 403]);
      if (method !== "GET") {
        const foreign = await browser.ask(method, target, undefined, { "sec-fetch-site": "cross-site" });
        expect([where, ...errorOf(foreign)]).toEqual([where, 403, "host_not_allowed", "origin"]);
      }
      if (path.endsWith("/stream") || (method === "DELETE" && path.endsWith("/session"))) continue;
      expect([where, [401, 403].includes((await browser.ask(method, target)).status)]).toEqual([where, false]);
    }
  });
});

test("a stream ends with the sign-in that began it", async () => {
  await inHouse({}, async ({ troupe, key, keyId, clock }) => {
    const browser = new Browser(troupe);
    await browser.signIn(key);
    const open = (given: string | null) =>
      troupe.fetch("/admin/v1/calls/stream", { key: given, headers: given === null ? { cookie: browser.cookie } : {} });
    const opening = [open(null), open(key)] as const;
    // Its head is sent with the first event, or after the keep-alive time.
    for (let seconds = 0; seconds < 20; seconds += 1) await clock.advanceSlowly(1_000);
    const [bySession, byKey] = await Promise.all(opening);
    expect([bySession.status, byKey.status]).toEqual([200, 200]);
    expect(bySession.headers.get("cache-control")).toBe("no-store, no-transform");
    await browser.ask("DELETE", "/admin/v1/session");
    await troupe.server.services.keys.revoke(keyId);
    let ended = false;
    const texts = Promise.all([bySession.text(), byKey.text()]).then(() => {
      ended = true;
    });
    for (let seconds = 0; seconds < 40 && !ended; seconds += 1) {
      await clock.advanceSlowly(1_000);
      await Bun.sleep(5);
    }
    await texts;
  });
});

test("browsers have names for people", () => {
  const names = {
    "Firefox on Linux": firefox,
    "Edge on Windows":
      "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36 Edg/140.0.0.0",
    "Safari on iPhone":
      "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1",
    "curl/8.5.0": "curl/8.5.0",
    unknown: "<>",
  };
  for (const [name, agent] of Object.entries(names)) expect(browserName(agent)).toBe(name);
  expect(browserName(null)).toBe("unknown");
});
