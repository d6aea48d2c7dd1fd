/** Stores over TLS: whose certificate is trusted, and what an operator is told of one that is not. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { chmodSync, copyFileSync } from "node:fs";
import { resolve } from "node:path";
import { freePort } from "../helpers/free-port.ts";
import { hasPostgres, PostgresServer } from "../helpers/postgres.ts";
import { hasRedis, RedisServer } from "../helpers/redis.ts";

const pem = (name: string) => resolve(`test/fixtures/tls/upstream-${name}.pem`);

/** Opens each store in a process of its own, as the authorities that are trusted are read at its start. */
const asker = `
  const { systemClock } = await import(process.cwd() + "/src/lib/time/clock.ts");
  const { RedisConnection } = await import(process.cwd() + "/src/store/redis/connection.ts");
  const { openPool } = await import(process.cwd() + "/src/store/postgres/store.ts");
  const settings = { pool: 1, statementSeconds: 5, leaseSeconds: 15, keysWithoutDatabaseSeconds: 1 };
  const ask = async (url, deadlineMs) => {
    if (url.startsWith("redis")) {
      const connection = new RedisConnection(url, deadlineMs, systemClock);
      try { return await connection.run("PING", []); } finally { await connection.close(); }
    }
    const pool = await openPool({ url, ...settings }, systemClock);
    try { return (await pool.run("select ssl::text from pg_stat_ssl where pid = pg_backend_pid()"))[0].ssl; } finally { await pool.close(); }
  };
  const told = [];
  for (const url of JSON.parse(process.argv[1])) told.push(await ask(url, Number(process.argv[2])).catch((error) => error.name + " " + error.kind + ": " + error.message));
  console.log(JSON.stringify(told));
  process.exit(0);
`;

/** @param deadlineMs of a command; half of it is there to find out why one fails, also on a busy machine */
async function asking(
  urls: readonly string[],
  env: Readonly<Record<string, string>>,
  deadlineMs = 20_000,
): Promise<string[]> {
  const { NODE_EXTRA_CA_CERTS: _, ...rest } = process.env;
  const child = Bun.spawn([process.execPath, "-e", asker, JSON.stringify(urls), String(deadlineMs)], {
    env: { ...rest, ...env },
    stderr: "inherit",
  });
  return JSON.parse(await child.stdout.text()) as string[];
}

/** With it Bun's clients would take every certificate. */
const lax = { NODE_TLS_REJECT_UNAUTHORIZED: "0" };

describe.skipIf(!hasRedis)("a coordination over TLS", () => {
  const port = freePort();
  let server: RedisServer;
  beforeAll(async () => {
    const files = ["--tls-cert-file", pem("local"), "--tls-key-file", pem("local"), "--tls-ca-cert-file", pem("ca")];
    server = await RedisServer.start(["--tls-port", String(port), "--tls-auth-clients", "no", ...files]);
  });
  afterAll(() => server[Symbol.asyncDispose]());
  const secure = (host = "localhost") => `rediss://${host}:${port}/0`;
  const show = (name: string) => server.ask("CONFIG", "SET", "tls-cert-file", pem(name), "tls-key-file", pem(name));

  test("is one of an authority that is trusted, whatever the environment says", async () => {
    const trusting = { NODE_EXTRA_CA_CERTS: pem("ca"), ...lax };
    expect(await asking([secure(), secure("127.0.0.1")], trusting)).toEqual(["PONG", "PONG"]);
    const refused = (why: string) =>
      `StorageError away: The coordination localhost:${port}/0 can't be reached (${why}): check the server, the way to it, its user and password.`;
    const unknown = "its certificate is of no authority that is trusted here (SELF_SIGNED_CERT_IN_CHAIN)";
    expect(await asking([secure()], lax)).toEqual([refused(unknown)]);
    await show("expired");
    expect(await asking([secure()], trusting)).toEqual([refused("its certificate has expired (CERT_HAS_EXPIRED)")]);
    await show("elsewhere");
    const name = "its certificate is for another host name (ERR_TLS_CERT_ALTNAME_INVALID)";
    expect(await asking([secure()], trusting)).toEqual([refused(name)]);
    await show("local");
  });

  test("tells the two ports apart", async () => {
    expect(await asking([`redis://localhost:${port}`], {})).toEqual([
      expect.stringContaining("(it ended the connection; rediss:// if it wants TLS)"),
    ]);
    expect(await asking([`rediss://localhost:${server.port}`], {}, 1_000)).toEqual([
      expect.stringContaining("(no answer within 1000 ms; redis:// if it has no TLS)"),
    ]);
  });
});

describe.skipIf(!hasPostgres)("a database over TLS", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await PostgresServer.start();
    await show("local");
    await server.ask("postgres", `alter system set ssl_cert_file = '${server.folder.file("server.pem")}'`);
    await server.ask("postgres", `alter system set ssl_key_file = '${server.folder.file("server.pem")}'`);
    await server.ask("postgres", "alter system set ssl = on");
    await server.ask("postgres", "select pg_reload_conf()");
  });
  afterAll(() => server[Symbol.asyncDispose]());
  const show = async (name: string) => {
    const file = server.folder.file("server.pem");
    copyFileSync(pem(name), file);
    chmodSync(file, 0o600);
    server.own(file);
    await server.ask("postgres", "select pg_reload_conf()");
  };
  const url = (settings: string) => `postgres://troupe:secret@localhost:${server.port}/postgres?${settings}`;
  const trusting = () => url(`sslmode=verify-full&sslrootcert=${pem("ca")}`);
  const refused = (why: string) =>
    `StorageError unusable: The database localhost:${server.port}/postgres can't be used: ${why}`;
  const advice = "check 'sslmode' and 'sslrootcert' in 'store'.";

  /** The reload takes a moment, and says nothing of its end. @returns what is told once it is not `before` */
  const askingAfter = async (before: string, urls: readonly string[], env = {}): Promise<string[]> => {
    let told = await asking(urls, env);
    while (told[0] === before) told = await asking(urls, env);
    return told;
  };

  test("is one of an authority that is trusted, whatever the environment says", async () => {
    const plain = refused("it has no TLS, which 'sslmode' in 'store' asks for.");
    const known = [trusting(), url(`sslmode=verify-ca&sslrootcert=${pem("ca")}`), url("sslmode=require")];
    expect(await askingAfter(plain, known, lax)).toEqual(["true", "true", "true"]);
    expect(await asking([url("sslmode=verify-full")], { NODE_EXTRA_CA_CERTS: pem("ca") })).toEqual(["true"]);
    const unknown = `its certificate is of no authority that is trusted here (UNABLE_TO_VERIFY_LEAF_SIGNATURE); ${advice}`;
    const others = [url("sslmode=verify-full"), url("sslmode=verify-ca")];
    expect(await asking(others, lax)).toEqual([refused(unknown), refused(unknown)]);
    const unread = "a file of 'sslrootcert', 'sslcert' or 'sslkey' in 'store' can't be read.";
    const files = ["/nowhere.pem", resolve("package.json")].map((file) =>
      url(`sslmode=verify-full&sslrootcert=${file}`),
    );
    expect(await asking(files, {})).toEqual([refused(unread), refused(unread)]);
    await show("expired");
    const expired = `its certificate has expired (CERT_HAS_EXPIRED); ${advice}`;
    expect(await askingAfter("true", [trusting()], lax)).toEqual([refused(expired)]);
    await show("elsewhere");
    const name = `its certificate is for another host name (ERR_TLS_CERT_ALTNAME_INVALID); ${advice}`;
    const theirs = [trusting(), url(`sslmode=verify-ca&sslrootcert=${pem("ca")}`)];
    expect(await askingAfter(refused(expired), theirs, lax)).toEqual([refused(name), "true"]);
  });
});
