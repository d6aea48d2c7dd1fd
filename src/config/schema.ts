/**
 * The schema of `troupe.yaml`. Each default stands beside its field; the environment variables, the JSON Schema and the
 * tables in docs/settings.md are made from this.
 */

import { type Static, Type } from "@sinclair/typebox";
import { strategies } from "../lib/http/strategies.ts";
import { KeyedRecord } from "../lib/json/keyed-record.ts";
import { Closed, Words } from "../lib/json/schemas.ts";
import { detailKinds } from "../lib/text/redact.ts";
import type { Filled, Frozen } from "./filled.ts";
import { hostedTools, mcpSection, mcpServers } from "./mcp.ts";
import { PriceFile, UnknownPriceFile } from "./price-schema.ts";
import { ProviderFile, providerName, weight } from "./provider-schema.ts";
import { defaulted, flag, oneOf, optional, section, text, texts, timeout, timeouts, whole } from "./schema-fields.ts";
import { surfaceNames } from "./surfaces.ts";

const Address = text("`<host>:<port>` (`[::1]:8080` for IPv6; port 0 takes a free one) or `unix:<path>`.");

export const ListenerFile = Closed({
  address: Address,
  surfaces: optional(
    Type.Array(Words(surfaceNames), {
      minItems: 1,
      uniqueItems: true,
      description:
        "What is served there. Default: `orchestrator` and `gateway`, and on a loopback address `admin` too. With both of the first the gateway's base is `/gateway/v1`; one of them alone has `/v1`. The admin API's base is `/admin/v1`.",
    }),
  ),
  tls: optional(
    Closed(
      { cert: text("PEM file of the certificate chain."), key: text("PEM file of the private key.") },
      { description: "Serve HTTPS. A changed certificate is reloaded while running." },
    ),
  ),
});

const aliasName = {
  pattern: "^[^/\\s]{1,256}$",
  message: "must be a name of 1 to 256 characters without '/' or spaces",
};

const DatabaseAddress = text(
  "`postgres://<user>:<password>@<host>:<port>/<database>`; better `${NAME}` than the password itself.",
);

/** The mapping that `store` may be. */
export const StoreFile = Closed({
  url: DatabaseAddress,
  pool: whole(
    1,
    1000,
    8,
    "Connections of each process for calls; up to eight more are for rate limits and for what no call waits for.",
  ),
  statement_seconds: defaulted(timeout("How long a call waits for one statement before it is answered with 503."), 2),
  lease_seconds: whole(
    3,
    300,
    15,
    "How long a node's lease lasts without renewal; then others take over its calls with a `service-request-id`. It is renewed every third of it.",
  ),
  keys_without_database_seconds: whole(
    0,
    30 * 86_400,
    600,
    "How long known keys stay valid while the database can't be reached; then calls with a key get 503.",
  ),
});

const AlertsFile = Closed(
  {
    url: Type.Union(
      [Type.String({ minLength: 1 }), Type.Array(Type.String({ minLength: 1 }), { minItems: 1, maxItems: 8 })],
      {
        description:
          "The address that messages are posted to, or a list of up to 8. Better `${NAME}` than a secret in it. Default: none.",
      },
    ),
    secret: Type.String({
      minLength: 16,
      maxLength: 256,
      description:
        "The secret that signs them: any text, or `whsec_` and base64, as in Standard Webhooks. Better `${NAME}`. Default: none.",
    }),
  },
  { description: "Signed messages to an operator: a budget is nearly spent, a provider is down. Default: none." },
);
export type AlertsFile = Filled<typeof AlertsFile>;

const tagName = {
  pattern: "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
  message: "must be of 1 to 64 letters, digits, '.', '_' and '-', and begin with a letter or digit",
};

const modelPattern = {
  pattern: "^[!-~]{1,200}$",
  message: "must be a pattern of <provider>/<model>, of 1 to 200 characters without spaces",
};

/** The most dollars of one budget: whole micro-dollars stay exact. */
const maxDollars = 1_000_000_000;

const amount = (description: string) => optional(Type.Number({ minimum: 0, maximum: maxDollars, description }));
const amounts = {
  day: amount("Dollars for a day in UTC. Default: no limit."),
  month: amount("Dollars for a month in UTC. Default: no limit."),
  prepaid: amount("Dollars altogether. Default: no limit."),
};

const budget = (description: string) => section(description, amounts);

export const BudgetFile = Closed(amounts);

const budgetLimits = {
  all: budget("By all calls together."),
  tiers: section("By the keys of each plan together.", {
    free: budget("Of the free plan."),
    pro: budget("Of the pro plan."),
    enterprise: budget("Of the enterprise plan."),
  }),
  keys: budget("By each key that has no budget of its own for that period."),
  tags: defaulted(KeyedRecord(tagName, BudgetFile, { description: "By all calls with that tag." }), {}),
};

export const ConfigFile = Closed(
  {
    listen: defaulted(
      Type.Union([Address, ListenerFile, Type.Array(Type.Union([Address, ListenerFile]), { minItems: 1 })], {
        description: "Where to listen: an address, or one with its surfaces and certificate, or a list of those.",
      }),
      "127.0.0.1:8080",
    ),
    data: optional(text("The data folder. Default: `$STATE_DIRECTORY`, else `./data`.")),
    store: optional(
      Type.Union([DatabaseAddress, StoreFile], {
        description:
          "A PostgreSQL database that several machines share, by its address or as a mapping. Default: SQLite in the data folder.",
      }),
    ),
    coordination: optional(
      text(
        "A Valkey or Redis server that counts rate limits for all nodes in place of the database: `redis://<user>:<password>@<host>:<port>/<number>`, `rediss://` with TLS. Better `${NAME}` than the password itself. Default: the database.",
      ),
    ),
    personas: optional(
      text("The folder of personas. Default: `./personas`; while that holds none, those in the executable."),
    ),
    workers: whole(
      0,
      256,
      1,
      "How many processes share the port and the data folder, to use as many cores; 0 is one for each core. Linux only.",
    ),
    providers: defaulted(
      KeyedRecord(providerName, ProviderFile, {
        description:
          "Upstreams by the name left of a model's slash. One whose key is in the environment needs no entry.",
      }),
      {},
    ),
    aliases: defaulted(
      KeyedRecord(
        aliasName,
        Type.Union([
          text("`<provider>/<model>`, or a persona. Its `*` stands for what that of the alias matched."),
          Closed({
            models: Type.Array(text("`<provider>/<model>`."), {
              minItems: 1,
              maxItems: 16,
              description: "Models that stand for one another.",
            }),
            strategy: optional(
              Words(strategies, {
                description: "How one of them is chosen, as that of a provider's keys. Default: sticky.",
              }),
            ),
            weights: optional(
              Type.Array(weight("A share."), {
                minItems: 1,
                maxItems: 16,
                description: "Shares of the models, in their order. Default: equal ones.",
              }),
            ),
          }),
        ]),
        {
          description:
            "Other names of models and personas, for clients that ask for bare names: `fast: openai/<model>`, `gpt-*: openai/gpt-*`. A name of its own goes before a `*`, and the first `*` that fits before later ones. `{ models, strategy, weights }` names several models of the gateway.",
        },
      ),
      {},
    ),
    mcp_servers: mcpServers,
    hosted_tools: hostedTools,
    mcp: mcpSection,
    timeouts: section("Timeouts of calls to upstreams.", {
      connect_seconds: defaulted(timeouts.connect_seconds, 10),
      first_byte_seconds: defaulted(timeouts.first_byte_seconds, 300),
      idle_seconds: defaulted(timeouts.idle_seconds, 120),
    }),
    tiers: section("Requests per minute of a key, by its plan; an enterprise key brings its own number.", {
      free: whole(1, 1_000_000, 10, "Requests per minute of a key of the free plan."),
      pro: whole(1, 1_000_000, 100, "Requests per minute of a key of the pro plan."),
    }),
    budgets: section(
      "What may be spent, in dollars. Keys and tags have budgets of their own by `troupe budgets` too.",
      {
        ...budgetLimits,
        models: optional(
          KeyedRecord(modelPattern, Closed(budgetLimits), {
            description:
              "The same by calls of some models alone, beside those above: patterns of `<provider>/<model>`, as it is called, such as `openai/*`. Default: none.",
          }),
        ),
        unknown_price: oneOf(
          ["refuse", "allow"],
          "refuse",
          "Whether calls that a budget applies to and whose price is unknown are refused or allowed; allowed ones count nothing.",
        ),
        assumed_output_tokens: whole(
          1,
          1_000_000,
          4096,
          "Tokens of an answer that are reserved where the request sets no bound; the true number counts in the end.",
        ),
        assumed_tool_uses: whole(
          0,
          1000,
          5,
          "Uses of each tool that the provider runs, such as a web search, that are reserved where the request sets no bound; the true number counts in the end.",
        ),
        estimate_factor: defaulted(
          Type.Number({
            minimum: 0.01,
            maximum: 10,
            description:
              "Factor on the estimated cost of a call that is reserved: below 1 more calls run at once where prompts come mostly from a provider's cache; a budget may be overspent by what calls cost beyond it.",
          }),
          1,
        ),
        tag_header: optional(
          Type.String({
            pattern: "^[Xx]-[A-Za-z0-9-]{1,60}$",
            description:
              "A header such as `x-troupe-tag` by which a request may add one tag to its key's. Default: none.",
          }),
        ),
      },
    ),
    limits: section("Limits on requests.", {
      body_bytes: whole(1024, 1024 ** 3, 20 * 1024 ** 2, "Maximum request body size."),
      body_memory_bytes: optional(
        Type.Integer({
          minimum: 1024,
          description:
            "The most bytes of all request bodies held at once; beyond it the answer is 503 `overloaded`. Default: an eighth of the memory, at most 1 GiB, shared among the workers.",
        }),
      ),
      json_depth: whole(4, 512, 64, "Maximum nesting depth of its JSON."),
      json_values: whole(1000, 10_000_000, 250_000, "Maximum number of values in its JSON, nested ones included."),
      json_keys: whole(1000, 10_000_000, 100_000, "Maximum number of keys of all objects in its JSON."),
      json_string_bytes: whole(1024, 1024 ** 3, 20 * 1024 ** 2, "Maximum length of a string in its JSON."),
      body_seconds: whole(1, 3600, 120, "Request body timeout: how long all of it may take to arrive."),
      idle_connection_seconds: whole(
        1,
        255,
        75,
        "Keep-alive timeout: how long a client's connection may stay open without a request. Above that of the proxy or load balancer in front (often 60).",
      ),
      concurrent_requests: whole(
        1,
        1_000_000,
        10_000,
        "How many requests may run at once, open streams included; beyond it the answer is 503 `overloaded`.",
      ),
      background_responses: whole(
        1,
        1_000_000,
        100,
        "How many responses with `background: true` one key may have running in each process; beyond it the answer is 429.",
      ),
      anonymous_per_minute: whole(1, 1_000_000, 600, "Requests per minute of one client address without a valid key."),
      gateway_per_minute: optional(
        Type.Integer({
          minimum: 1,
          maximum: 1_000_000,
          description: "Requests per minute of one key on the gateway. Default: no limit but the key's own.",
        }),
      ),
    }),
    streams: section("Streamed answers.", {
      keep_alive_seconds: whole(0, 3600, 15, "Idle time after which a keep-alive comment is sent; 0: never."),
    }),
    websockets: section("WebSockets, by which `/v1/responses` may be asked too.", {
      enabled: flag(true, "Whether they are taken; else the answer is 426, on which clients go on by HTTP."),
      max_connections: whole(1, 1_000_000, 1000, "How many may be open at once in one process."),
      max_connections_per_key: whole(1, 1_000_000, 100, "How many of these one API key may have."),
      idle_seconds: whole(1, 86_400, 600, "Time without a response under way after which one is closed."),
      max_seconds: whole(1, 86_400, 3600, "How long one may be open; a response under way ends first."),
    }),
    shutdown: section("Shutdown on SIGTERM.", {
      delay_seconds: whole(
        0,
        3600,
        0,
        "How long requests are still accepted while `/healthz` already answers 503, so that a load balancer notices first.",
      ),
      drain_seconds: whole(0, 3600, 30, "Drain timeout: how long requests in flight may take to finish."),
    }),
    idempotency: section("Requests with a `service-request-id`.", {
      retention_hours: whole(1, 24 * 30, 24, "How long an answer is stored for retries."),
      finish_after_disconnect: flag(true, "Whether such a call goes on after its client disconnected."),
      record_bytes: whole(1024, 256 * 1024 ** 2, 16 * 1024 ** 2, "Maximum size of a stored answer."),
    }),
    conversations: section("Conversations stored with `store: true`.", {
      retention_days: whole(1, 3650, 30, "How long one is stored after its last use."),
    }),
    usage: section("The ledger: a line for each attempt to answer a request, with what it used and cost.", {
      retention_days: whole(1, 3650, 400, "How long its lines are stored, in whole UTC days."),
      metadata: defaulted(
        Type.Array(Type.String({ pattern: "^[A-Za-z0-9_-]{1,64}$" }), {
          maxItems: 8,
          uniqueItems: true,
          description: "Keys of requests' `metadata` that the ledger records, for `--by metadata.<key>`.",
        }),
        [],
      ),
    }),
    prices: defaulted(
      Type.Array(Type.Union([PriceFile, UnknownPriceFile]), {
        description:
          "Prices that replace those of the list; the first that fits wins. A row `unknown_price` is for models that nothing else has a price of. [costs.md](costs.md) has examples.",
      }),
      [],
    ),
    facts: section(
      "What is known of models: what they take, hold and cost, and when they end. [facts.md](facts.md) has more.",
      {
        update: oneOf(
          ["off", "daily"],
          "off",
          "daily: once a day one process of all asks the place in `from` for newer facts. off: those in the executable count, and what `troupe facts update` has taken.",
        ),
        from: optional(
          text(
            "Where newer facts are published: the address of a pointer, `https://…/facts.json`, or a folder with such a file. Relative to this file. Default: none.",
          ),
        ),
      },
    ),
    model_lists: section("The lists of models that providers give.", {
      refresh_minutes: whole(
        0,
        10_080,
        360,
        "How often, in the background, providers that are set up are asked for their models; 0: never. Those whose `models` are named here list these alone.",
      ),
    }),
    alerts: optional(AlertsFile),
    allowed_hosts: texts(
      "Names in `Host` by which a listener on a loopback address may be called, besides localhost, e.g. `troupe.lan`; `*` stands for any characters.",
    ),
    trusted_proxies: texts("Addresses or CIDR blocks of proxies whose `X-Forwarded-For` is trusted."),
    log: section("One line per request, on stderr.", {
      level: oneOf(["debug", "info", "warn", "error"], "info", "Minimum level that is logged."),
      format: oneOf(["auto", "json", "pretty"], "auto", "auto: pretty on a terminal, JSON lines elsewhere."),
      content: flag(false, "Whether message content may be logged."),
      redact: defaulted(
        Type.Array(Words(detailKinds), {
          uniqueItems: true,
          description:
            "People's details that examples take the place of, where what was said in a call is read or becomes a persona's test: emails, phones, cards, ibans, ips.",
        }),
        [],
      ),
      sample: defaulted(
        Type.Number({
          minimum: 0,
          maximum: 1,
          description: "Sampling rate of requests answered below 400, from 0 to 1; all others are always logged.",
        }),
        1,
      ),
      omit: texts("Fields that are left out of access log lines, e.g. `key`."),
    }),
    metrics: section("`/metrics`, which needs no key.", {
      money: flag(
        false,
        "Whether everybody sees there what calls cost and what is spent of budgets, in dollars; else only who sends a key with `admin` among its surfaces.",
      ),
    }),
    admin: section("The admin API.", {
      trusted_user_header: optional(
        Type.String({
          pattern: "^[A-Za-z0-9-]{1,64}$",
          description:
            "A header such as `x-forwarded-user` by which a proxy of `trusted_proxies` names the user it signed in; such requests need no key. The proxy must remove it from clients' requests. Default: none.",
        }),
      ),
    }),
    console: section("The console, and what the admin API does for it.", {
      write: flag(
        false,
        "Whether the files of personas can be saved in the console and by the [admin API](admin.md#personas); else they are read-only there.",
      ),
    }),
    previews: section(
      "[Previews](persona-reviews.md#previews) of personas, pushed by keys with `preview` among their surfaces.",
      {
        days: whole(
          1,
          90,
          7,
          "How long a preview answers, unless it is pushed again or asks for less, and a report is kept.",
        ),
        max: whole(0, 10_000, 100, "The most labels that have a preview at once, and a report; 0: none can be pushed."),
        max_bytes: whole(
          1024,
          256 * 1024 ** 2,
          8 * 1024 ** 2,
          "The most bytes of one preview, its personas and what they know, and of one report.",
        ),
      },
    ),
    account: section("What who holds a key sees of it: `/account` in a browser, `GET /v1/account` for programs.", {
      enabled: flag(true, "Whether they are served; else they are 404."),
      rotate: flag(false, "Whether key holders may give their key a new secret themselves."),
      rotate_grace_seconds: whole(
        0,
        30 * 86_400,
        3600,
        "How long the old secret is taken beside the new one when its holder rotates it.",
      ),
    }),
    cors: section("Browsers on other origins.", {
      origins: texts("Origins that may call, e.g. `https://app.example.com`; `*` is any."),
    }),
  },
  { title: "The configuration of Troupe" },
);

/** A file with its defaults. */
export type ConfigFile = Filled<typeof ConfigFile>;
export type ListenerFile = Frozen<Static<typeof ListenerFile>>;

/** For editors: what docs/troupe.schema.json holds. */
export function configJsonSchema(): Record<string, unknown> {
  return { $schema: "http://json-schema.org/draft-07/schema#", ...JSON.parse(JSON.stringify(ConfigFile)) };
}
