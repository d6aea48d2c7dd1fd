import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { stringify } from "yaml";
import { formatDiagnostic } from "../../src/lib/yaml/yaml.ts";
import { runs } from "../helpers/long-form.ts";
import { configOf, errorsOf, load, loaded } from "./loading.ts";

const all = ["orchestrator", "gateway", "admin"] as const;

describe("without anything", () => {
  test("every default stands", () => {
    expect(configOf({})).toEqual({
      listen: [{ address: { kind: "tcp", host: "127.0.0.1", port: 8080 }, surfaces: all }],
      data: "/srv/data",
      personas: { folder: "/srv/personas", isNamed: false },
      workers: 1,
      providers: [],
      tiers: { free: 10, pro: 100 },
      budgets: {
        all: {},
        tiers: { free: {}, pro: {}, enterprise: {} },
        keys: {},
        tags: {},
        unknownPrice: "refuse",
        assumedOutputTokens: 4096,
        assumedToolUses: 5,
        estimateFactor: 1,
      },
      limits: {
        bodyBytes: 20 * 1024 * 1024,
        jsonDepth: 64,
        jsonValues: 250_000,
        jsonKeys: 100_000,
        jsonStringBytes: 20 * 1024 * 1024,
        bodySeconds: 120,
        idleConnectionSeconds: 75,
        concurrentRequests: 10_000,
        backgroundResponses: 100,
        anonymousPerMinute: 600,
      },
      aliases: {},
      mcpServers: {},
      hostedTools: {},
      mcp: {
        turns: 10,
        parallel: 4,
        calls: 50,
        seconds: 300,
        resultBytes: 64 * 1024,
        totalBytes: 512 * 1024,
        findAbove: 40,
      },
      streams: { keepAliveSeconds: 15 },
      websockets: {
        enabled: true,
        maxConnections: 1000,
        maxConnectionsPerKey: 100,
        idleSeconds: 600,
        maxSeconds: 3600,
      },
      shutdown: { delaySeconds: 0, drainSeconds: 30 },
      idempotency: { retentionHours: 24, finishAfterDisconnect: true, recordBytes: 16 * 1024 * 1024 },
      conversations: { retentionDays: 30 },
      usage: { retentionDays: 400, metadata: [] },
      prices: [],
      facts: { update: "off" },
      modelLists: { refreshMinutes: 360 },
      allowedHosts: [],
      trustedProxies: [],
      log: { level: "info", format: "auto", content: false, sample: 1, omit: [], redact: [] },
      metrics: { money: false },
      admin: {},
      console: { write: false },
      previews: { days: 7, max: 100, maxBytes: 8 * 1024 * 1024 },
      account: { enabled: true, rotate: false, rotateGraceSeconds: 3600 },
      cors: { origins: [] },
    });
  });

  test.each(["", "# all by default\n", "log:\nproviders:\nlimits: {}\n"])("a file of %p says no more", (yaml) => {
    expect(configOf({ yaml })).toEqual(configOf({}));
  });

  test("nothing of it can be changed", () => {
    const config = configOf({ env: { OPENAI_API_KEY: "k" } });
    const parts = [config, config.listen, config.listen[0]!.address, config.providers[0]!.timeouts, config.log];
    expect(parts.every((part) => Object.isFrozen(part))).toBe(true);
  });
});

describe("the file", () => {
  test("is the one that is named, else the one here, else the one in /etc", () => {
    const files = {
      "troupe.yaml": "tiers: {free: 1}",
      "/etc/troupe/troupe.yaml": "tiers: {free: 2}",
      "mine.yaml": "tiers: {free: 3}",
      "other.yaml": "tiers: {free: 4}",
    };
    const freeOf = (given: object) => configOf({ files, ...given }).tiers.free;
    expect(freeOf({})).toBe(1);
    expect(freeOf({ files: { "/etc/troupe/troupe.yaml": "tiers: {free: 2}" } })).toBe(2);
    expect(freeOf({ env: { TROUPE_CONFIG: "mine.yaml" } })).toBe(3);
    expect(freeOf({ env: { TROUPE_CONFIG: "mine.yaml" }, flags: { config: "other.yaml" } })).toBe(4);
    expect(freeOf({ env: { TROUPE_CONFIG: "" } })).toBe(1);
  });

  test("must be there when it is named", () => {
    expect(errorsOf({ flags: { config: "no.yaml" } })).toEqual(["no.yaml: does not exist, but --config names it"]);
    expect(errorsOf({ env: { TROUPE_CONFIG: "no.yaml" } })).toEqual([
      "no.yaml: does not exist, but TROUPE_CONFIG names it",
    ]);
  });

  test("that can't be read is an error, and no other is taken in its place", () => {
    const files = { "troupe.yaml": new Error("EACCES: permission denied"), "/etc/troupe/troupe.yaml": "" };
    expect(errorsOf({ files })).toEqual(["troupe.yaml: can't be read: EACCES: permission denied"]);
  });

  test("gives paths from its own folder; variables and flags give them from the current one", () => {
    const files = {
      "/etc/troupe/troupe.yaml":
        "data: state\npersonas: people\nlisten: {address: 'unix:run/s', tls: {cert: c, key: k}}",
      "/etc/troupe/c": "-",
      "/etc/troupe/k": "-",
    };
    expect(configOf({ files })).toMatchObject({
      data: "/etc/troupe/state",
      personas: { folder: "/etc/troupe/people", isNamed: true },
      listen: [
        { address: { kind: "unix", path: "/etc/troupe/run/s" }, tls: { cert: "/etc/troupe/c", key: "/etc/troupe/k" } },
      ],
    });
    const env = { TROUPE_DATA: "d", TROUPE_LISTEN: "unix:s" };
    expect(configOf({ files, env, flags: { personas: "p" } })).toMatchObject({
      data: "/srv/d",
      personas: { folder: "/srv/p", isNamed: true },
      listen: [{ address: { kind: "unix", path: "/srv/s" } }],
    });
  });

  test("of another form is one error", () => {
    expect(errorsOf({ yaml: "- a\n- b\n" })).toEqual(["troupe.yaml:1:1: must be an object"]);
    expect(errorsOf({ yaml: "just text" })).toEqual(["troupe.yaml:1:1: must be an object"]);
  });
});

describe("the layers", () => {
  const yaml = "log: {level: warn, format: json}\ntiers: {free: 20}\ndata: /file\npersonas: /file\n";

  test("rise from file to environment to flags", () => {
    const env = { TROUPE_LOG_LEVEL: "error", TROUPE_DATA: "/env", TROUPE_PERSONAS: "/env" };
    expect(configOf({ yaml, env, flags: { data: "/flag" } })).toMatchObject({
      log: { level: "error", format: "json", content: false, sample: 1, omit: [], redact: [] },
      tiers: { free: 20, pro: 100 },
      data: "/flag",
      personas: { folder: "/env", isNamed: true },
    });
  });

  test("the environment sets numbers, truth values and lists", () => {
    const env = {
      TROUPE_LIMITS_BODY_BYTES: "4096",
      TROUPE_LIMITS_GATEWAY_PER_MINUTE: "7",
      TROUPE_TIMEOUTS_CONNECT_SECONDS: "0.5",
      TROUPE_IDEMPOTENCY_FINISH_AFTER_DISCONNECT: "false",
      TROUPE_TRUSTED_PROXIES: "10.0.0.0/8, ::1",
      TROUPE_CORS_ORIGINS: "*",
      TROUPE_LISTEN: "0.0.0.0:80,[::1]:81",
      OPENAI_API_KEY: "k",
    };
    expect(configOf({ env })).toMatchObject({
      limits: { bodyBytes: 4096, gatewayPerMinute: 7 },
      providers: [{ timeouts: { connectSeconds: 0.5, firstByteSeconds: 300, idleSeconds: 120 } }],
      idempotency: { finishAfterDisconnect: false },
      trustedProxies: ["10.0.0.0/8", "::1"],
      cors: { origins: ["*"] },
      listen: [{ address: { host: "0.0.0.0", port: 80 } }, { address: { host: "::1", port: 81 } }],
    });
  });

  test("a variable's error names the variable", () => {
    const env = {
      TROUPE_TIERS_FREE: "many",
      TROUPE_LOG_LEVEL: "loud",
      TROUPE_LOG_CONTENT: "yes",
      TROUPE_TRUSTED_PROXIES: "10.0.0.0/8,nowhere",
      TROUPE_CORS_ORIGINS: "https://a.example/path",
      TROUPE_LISTEN: "localhost",
    };
    expect(errorsOf({ env }).toSorted()).toEqual([
      'environment: TROUPE_CORS_ORIGINS: "https://a.example/path" is not an origin such as https://app.example.com',
      'environment: TROUPE_LISTEN: "localhost" must be <host>:<port>, [<IPv6 address>]:<port> or unix:<path>',
      "environment: TROUPE_LOG_CONTENT: must be true or false",
      'environment: TROUPE_LOG_LEVEL: must be one of "debug", "info", "warn", "error"',
      "environment: TROUPE_TIERS_FREE: must be an integer from 1 to 1000000",
      'environment: TROUPE_TRUSTED_PROXIES: "nowhere" is not an address or a CIDR block',
    ]);
  });

  test("a variable of a near-by name is a warning; others are nobody's business", () => {
    const env = { TROUPE_LOGLEVEL: "debug", TROUPE_SERVICE_HOST: "10.0.0.1", TROUPE_IMAGE_TAG: "7", HOME: "/" };
    expect(loaded({ env }).warnings.map(formatDiagnostic)).toEqual([
      "environment: TROUPE_LOGLEVEL: is not a known variable; did you mean TROUPE_LOG_LEVEL?",
    ]);
  });

  test("systemd's state folder stands in for the default alone", () => {
    const env = { STATE_DIRECTORY: "/var/lib/troupe:/var/lib/other" };
    expect(configOf({ env }).data).toBe("/var/lib/troupe");
    expect(configOf({ env, yaml }).data).toBe("/file");
    expect(configOf({ env: { ...env, TROUPE_DATA: "/env" } }).data).toBe("/env");
  });

  test("personas are those of ./personas where nothing else is named", () => {
    expect(configOf({}).personas).toEqual({ folder: "/srv/personas", isNamed: false });
    expect(configOf({ yaml }).personas).toEqual({ folder: "/file", isNamed: true });
  });
});

test("the file may end in .yml, and what looks like it is never passed over in silence", () => {
  const fileOf = (...names: string[]) => {
    const { file, warnings } = loaded({ files: Object.fromEntries(names.map((name) => [name, "workers: 1\n"])) });
    return [file, ...warnings.map(formatDiagnostic)];
  };
  expect(fileOf("troupe.yml")).toEqual(["troupe.yml"]);
  expect(fileOf("/etc/troupe/troupe.yml")).toEqual(["/etc/troupe/troupe.yml"]);
  expect(fileOf("troupe.yaml", "troupe.yml")).toEqual([
    "troupe.yaml",
    "troupe.yml: is not read, as troupe.yaml stands beside it",
  ]);
  expect(fileOf("troupe.YAML")).toEqual([
    undefined,
    "troupe.YAML: is not read; a configuration is named troupe.yaml or troupe.yml",
  ]);
});

test("an alias has no slash", () => {
  expect(errorsOf({ yaml: 'aliases: {"a/b": openai/x}' })).toEqual([
    "troupe.yaml:1:11: aliases[\"a/b\"]: must be a name of 1 to 256 characters without '/' or spaces",
  ]);
});

describe("errors", () => {
  test("are told all at once, in the order of the file, those of other places last", () => {
    const yaml = `log: {levl: debug}
tiers:
  free: 200
  pro: 100
listen:
  - 127.0.0.1:80
  - address: 127.0.0.1:80
    tls: {cert: here.pem}
  - 0.0.0.0:99999
limits: {body_bytes: "20"}
trusted_proxies: [10.0.0.0/33]
cors: {origins: [app.example.com]}
providers:
  opnai: {}
  mycorp:
    dialect: openai
    base_ulr: https://llm.example
colour: red
allowed_hosts: ["http://a.example"]
aliases: {claude: anthropic, "gpt": openai/gpt-*}
`;
    expect(errorsOf({ yaml, env: { TROUPE_STREAMS_KEEP_ALIVE_SECONDS: "-1" } })).toEqual([
      "troupe.yaml:1:7: log.levl: is not a known key; did you mean 'level'?",
      "troupe.yaml:3:9: tiers.free: makes the free plan's number, 200, more than the pro plan's, 100",
      "troupe.yaml:8:5: listen[1].tls.key: is required",
      "troupe.yaml:10:22: limits.body_bytes: must be an integer from 1024 to 1073741824",
      'troupe.yaml:11:19: trusted_proxies[0]: "10.0.0.0/33" is not an address or a CIDR block',
      'troupe.yaml:12:18: cors.origins[0]: "app.example.com" is not an origin such as https://app.example.com',
      "troupe.yaml:14:3: providers.opnai: is no built-in provider, so it needs a dialect; did you mean 'openai'?",
      "troupe.yaml:17:5: providers.mycorp.base_ulr: is not a known key; did you mean 'base_url'?",
      "troupe.yaml:18:1: colour: is not a known key",
      'troupe.yaml:19:17: allowed_hosts[0]: "http://a.example" is not a name such as troupe.lan; ports and schemes do not belong to it',
      "troupe.yaml:20:19: aliases.claude: must be <provider>/<model> or a persona's <namespace>/<name>",
      "troupe.yaml:20:37: aliases.gpt: has a '*', for which the alias 'gpt' needs one '*' too",
      "environment: TROUPE_STREAMS_KEEP_ALIVE_SECONDS: must be an integer from 0 to 3600",
    ]);
  });

  test("of the text itself do not hide those of the environment", () => {
    expect(errorsOf({ yaml: "log: {level: info\n", env: { TROUPE_PORT: "http" } })).toEqual([
      "troupe.yaml:1:6: This { is not closed",
      'environment: TROUPE_PORT: "http" must be a port from 0 to 65535',
    ]);
  });

  test("never show a secret", () => {
    const secret = "sk-live-0123456789";
    const yaml = `providers:\n  openai: {api_key: "${secret} ", base_url: "https://u:${secret}@x"}\n  b: {dialect: openai, headers: {x: "${secret}\\n"}}\n`;
    const errors = errorsOf({ yaml, env: { GOOGLE_API_KEY: `${secret} ${secret}`, TROUPE_PORT: "80" } });
    expect(errors).toHaveLength(5);
    expect(errors.join("\n")).not.toContain(secret);
  });
});

test("where each value came from is known", () => {
  const yaml = "log:\n  level: warn\nproviders:\n  openai: {api_key: k}\n";
  const { origins } = loaded({ yaml, env: { TROUPE_TIERS_FREE: "5", GEMINI_API_KEY: "k" }, flags: { port: "1" } });
  const names = [...origins].map(([path, origin]) => `${path}: ${origin.name}`);
  expect(names).toContain("log.level: troupe.yaml:2:10");
  expect(names).toContain("providers.openai.api_key: troupe.yaml:4:21");
  expect(names).toContain("tiers.free: TROUPE_TIERS_FREE");
  expect(names).toContain("providers.google.api_key: GEMINI_API_KEY");
  expect(names).toContain("listen: --port");
  expect(origins.has("tiers.pro")).toBe(false);
});

test("the same input gives the same result", () => {
  const given = { yaml: "tiers: {free: 3}", env: { OPENAI_API_KEY: "k" } };
  expect(load(given)).toEqual(load(given));
});

describe("whatever a file or a variable holds", () => {
  const keys = ["listen", "providers", "tiers", "log", "cors", "trusted_proxies", "timeouts", "data", "x", "__proto__"];
  const inner = ["address", "surfaces", "tls", "openai", "azure", "base_url", "headers", "models", "options", "free"];
  const odd = [
    "${A}",
    "${B:-}",
    "${",
    "a:1",
    "unix:/x",
    "http://x",
    "gateway",
    "*",
    "10.0.0.0/8",
    "openai",
    null,
    0,
    -1,
  ];
  const tree = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      fc.constantFrom(...odd),
      fc.string(),
      fc.double(),
      fc.boolean(),
      fc.array(tie("value"), { maxLength: 3 }),
      fc.dictionary(fc.constantFrom(...keys, ...inner), tie("value"), { maxKeys: 5 }),
    ),
  })).value;
  const variables = ["A", "TROUPE_LISTEN", "TROUPE_PORT", "TROUPE_TIERS_FREE", "OPENAI_API_KEY", "OLLAMA_HOST"];

  test("a configuration comes of it, or errors that name their place", () => {
    const file = fc.dictionary(fc.constantFrom(...keys), tree, { maxKeys: 5 });
    const env = fc.dictionary(fc.constantFrom(...variables), fc.string());
    fc.assert(
      fc.property(file, env, (value, env) => {
        const result = load({ yaml: stringify(value), env: { ...env } });
        if (!("errors" in result)) return;
        expect(result.errors.length).toBeGreaterThan(0);
        for (const diagnostic of result.errors) expect(diagnostic.file === "" || diagnostic.message === "").toBe(false);
      }),
      { numRuns: runs(1000) },
    );
  });

  test("no text stops the reader", () => {
    const pieces = [
      "a",
      ": ",
      "- ",
      "  ",
      "\n",
      "{",
      "}",
      "[",
      "]",
      "&a ",
      "*a",
      "<<",
      "'",
      '"',
      "|",
      "!x ",
      "? ",
      "---\n",
    ];
    const text = fc.oneof(
      fc.string({ unit: "binary" }),
      fc.array(fc.constantFrom(...pieces)).map((all) => all.join("")),
    );
    fc.assert(
      fc.property(text, (yaml) => {
        expect(load({ yaml })).toBeDefined();
      }),
      { numRuns: runs(1000) },
    );
  });
});

describe("a store", () => {
  test("is an address, or one with its limits; its password may be a reference", () => {
    const url = "postgres://u:p@db/troupe";
    const byDefault = { pool: 8, statementSeconds: 2, leaseSeconds: 15, keysWithoutDatabaseSeconds: 600 };
    expect(configOf({ yaml: `store: ${url}` }).store).toEqual({ url, ...byDefault });
    expect(configOf({ env: { TROUPE_STORE: url } }).store).toEqual({ url, ...byDefault });
    const socket = "postgres:///troupe?host=/run/postgresql";
    expect(configOf({ yaml: `store: ${socket}` }).store).toEqual({ url: socket, ...byDefault });
    const yaml = "store: {url: 'postgres://u:${WORD}@db/troupe', pool: 3, keys_without_database_seconds: 0}";
    const store = { url, pool: 3, statementSeconds: 2, leaseSeconds: 15, keysWithoutDatabaseSeconds: 0 };
    expect(configOf({ yaml, env: { WORD: "p" } }).store).toEqual(store);
  });

  test("that is none is named by its place, and never repeated", () => {
    const cases: [yaml: string, error: string][] = [
      ["store: mysql://u:secret@db/t", "troupe.yaml:1:8: store: must begin with postgres://"],
      ["store: {url: 'postgres://u:secret@db'}", "troupe.yaml:1:14: store.url: must name a host and a database"],
      ["store: postgres://u:se/cr@et@db:x/t", "troupe.yaml:1:8: store: is no address such as postgres://"],
      ["store: postgres://u:secret%zz@db/t", "troupe.yaml:1:8: store: has a % that is no escape"],
      [
        "store: postgres://u:secret@db/t?sslmode=full",
        "troupe.yaml:1:8: store: has an sslmode that is none of disable",
      ],
      ["store: {url: 'postgres://u:secret@db/t', pol: 1}", "troupe.yaml:1:42: store.pol: is not a known key"],
      ["store: {url: 'postgres://u:secret@db/t', pool: 0}", "troupe.yaml:1:48: store.pool: must be an integer"],
    ];
    for (const [yaml, error] of cases) {
      const errors = errorsOf({ yaml });
      expect(errors).toEqual([expect.stringContaining(error)]);
      expect(errors.join()).not.toMatch(/secret|se.cr/);
    }
  });
});

describe("coordination", () => {
  test("is an address beside a store that nodes share", () => {
    const env = { TROUPE_STORE: "postgres://db/t", TROUPE_COORDINATION: "redis://u:p@cache:6379/1" };
    expect(configOf({ env }).coordination).toBe("redis://u:p@cache:6379/1");
  });

  test("that is none is named by its place, and never repeated", () => {
    const cases: [url: string, error: string][] = [
      ["amqp://u:secret@cache", "coordination: must begin with redis://"],
      ["redis://u:se/cr@et@cache:x", "coordination: is no address such as redis://"],
      ["redis://u:secret%zz@cache", "coordination: has a % that is no escape"],
      ["redis://u:secret@cache/0?tls=true", "coordination: takes no settings after '?'; TLS is rediss://"],
      ["redis://u:secret@cache/name", "coordination: must end in the number of a database"],
    ];
    for (const [url, error] of cases) {
      const errors = errorsOf({ yaml: `{store: "postgres://db/t", coordination: "${url}"}` });
      expect(errors).toEqual([expect.stringContaining(error)]);
      expect(errors.join()).not.toMatch(/secret|se.cr/);
    }
    expect(errorsOf({ yaml: "coordination: redis://cache" })).toEqual([
      expect.stringContaining("coordination: needs 'store: postgres://…'"),
    ]);
  });
});

describe("workers", () => {
  const machine = { cores: 6, sharesPorts: true };
  const elsewhere = { cores: 6, sharesPorts: false };

  test("by file, variable and flag; 0 is one for each core", () => {
    expect(configOf({ yaml: "workers: 3" }).workers).toBe(3);
    expect(configOf({ yaml: "workers: 3", env: { TROUPE_WORKERS: "4" } }).workers).toBe(4);
    expect(configOf({ env: { TROUPE_WORKERS: "4" }, flags: { workers: "2" } }).workers).toBe(2);
    expect(configOf({ yaml: "workers: 0", machine }).workers).toBe(6);
    expect(configOf({ yaml: "workers: 0", machine: elsewhere }).workers).toBe(1);
  });

  test("a number that is none, or where it can't be", () => {
    expect(errorsOf({ flags: { workers: "auto" } })).toEqual([
      "command line: --workers: must be an integer from 0 to 256",
    ]);
    expect(errorsOf({ yaml: "workers: 2", machine: elsewhere })).toEqual([
      "troupe.yaml:1:10: workers: must be 1 here: only Linux lets 2 processes share a port",
    ]);
    expect(errorsOf({ yaml: 'listen: ["unix:/run/a.sock"]\nworkers: 2' })).toEqual([
      "troupe.yaml:2:10: workers: must be 1 beside unix:/run/a.sock: processes can't share a unix socket",
    ]);
  });
});
