/** Every route that takes a query refuses parameters that it does not describe, whatever its format. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { adminRoutes } from "../../src/admin/routes.ts";
import { openApiDocument } from "../../src/http/app.ts";
import { resolved } from "../helpers/resolved-description.ts";
import { Troupe } from "../helpers/troupe.ts";

const surfaces = ["orchestrator", "gateway", "admin"] as const;
let troupe: Troupe;
let key: string;
beforeAll(async () => {
  const address = { kind: "tcp", host: "127.0.0.1", port: 0 } as const;
  troupe = await Troupe.start({ config: { listen: [{ address, surfaces }] } });
  const { keys } = troupe.server.services;
  key = (await keys.create({ name: "all", tier: "enterprise", perMinute: 100_000, surfaces: [...surfaces, "preview"] }))
    .secret;
});
afterAll(() => troupe[Symbol.asyncDispose]());

type Parameter = {
  readonly name: string;
  readonly in: string;
  readonly style?: string;
  readonly schema: {
    readonly type?: string;
    readonly anyOf?: readonly { readonly const: string }[];
    readonly enum?: readonly string[];
    readonly maximum?: number;
  };
};
type Document = {
  readonly paths: Record<string, Record<string, { readonly operationId: string; readonly parameters?: Parameter[] }>>;
};

const document = resolved(await openApiDocument(surfaces, adminRoutes)) as Document;
const routes = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).flatMap(([method, { operationId, parameters = [] }]) => {
    const query = parameters.filter((one) => one.in === "query");
    return query.length === 0 ? [] : [{ path, method: method.toUpperCase(), operationId, query }];
  }),
);
type Route = (typeof routes)[number];
/** Formats of others judge their parameters' values themselves. */
const isOwn = ({ path }: Route) => !/\/models|\/responses/.test(path);
const pathOf = ({ path }: Route) => path.replace("/models/{id}", "/models/builtin/echo").replace(/\{\w+\}/g, "x");

async function answer(route: Route, query: string): Promise<[number, string]> {
  const response = await troupe.fetch(`${pathOf(route)}?${query}`, {
    method: route.method,
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    ...(route.method === "POST" && { body: "{}" }),
    signal: AbortSignal.timeout(5_000),
  });
  if (response.headers.get("content-type")?.startsWith("text/event-stream") === true) {
    await response.body!.cancel();
    return [response.status, ""];
  }
  return [response.status, await response.text()];
}

async function refused(route: Route, query: string): Promise<[number, boolean]> {
  const [status, text] = await answer(route, query);
  return [status, text.includes(query.split(/[=[]/)[0]!)];
}

test("there are such routes on every surface", () => {
  const found = routes.map(({ method, path }) => `${method} ${path}`);
  expect(found).toEqual(
    expect.arrayContaining([
      "GET /v1/usage",
      "GET /gateway/v1/usage",
      "GET /admin/v1/usage",
      "GET /admin/v1/calls",
      "GET /admin/v1/calls/stream",
      "GET /admin/v1/audit",
      "GET /gateway/v1/models",
      "GET /v1/chat/completions",
      "GET /v1/responses/{id}",
      "POST /v1beta/models/{id}:generateContent",
    ]),
  );
});

/** Lists of models bear any query. */
const strict = routes.filter(({ path }) => !path.endsWith("/models"));

describe.each(strict.map((one) => [`${one.method} ${one.path}`, one] as const))("%s", (_, one) => {
  test("refuses a name that it does not describe", async () => {
    for (const query of ["keey=x", "Limit=1", "limits=1", "meta[data]=1", "%C3%A4=1"])
      expect([query, ...(await refused(one, query))]).toEqual([query, 400, !query.startsWith("%")]);
  });

  test("takes every parameter that it describes, by its name", async () => {
    for (const { name, style, schema } of one.query) {
      const given = style === "deepObject" ? `${name}[team]` : name;
      const value = schema.anyOf?.[0]?.const ?? schema.enum?.[0] ?? String(schema.maximum ?? 1);
      const [, text] = await answer(one, `${encodeURIComponent(given)}=${value}`);
      expect([given, text.includes("There is no parameter")]).toEqual([given, false]);
    }
  });

  if (!isOwn(one)) return;

  test("refuses values that its parameters have not", async () => {
    for (const { name, schema } of one.query) {
      if (schema.anyOf !== undefined)
        expect([name, ...(await refused(one, `${name}=no-such`))]).toEqual([name, 400, true]);
      if (schema.type === "integer")
        for (const value of ["0x1", "-1", "1.5", schema.maximum! + 1, ""])
          expect([name, ...(await refused(one, `${name}=${value}`))]).toEqual([name, 400, true]);
    }
  });
});

test("other spellings of Gemini's routes take the same query", async () => {
  for (const path of [
    "/v1/models/troupe/tutor:generateContent",
    "/v1beta/troupe/tutor:generateContent",
    "/gateway/v1/models/builtin/echo:generateContent",
    "/gateway/v1beta/builtin/echo:generateContent",
  ]) {
    const ask = (query: string) =>
      troupe.post(`${path}?${query}`, { contents: [{ role: "user", parts: [{ text: "Hi" }] }] }, { key });
    const refused = await ask("keey=x");
    expect([path, refused.status, (await refused.text()).includes("keey")]).toEqual([path, 400, true]);
    expect((await ask("alt=json")).status).not.toBe(400);
  }
});

test("a name that stands twice is refused", async () => {
  for (const path of [
    "/v1/usage?by=day&by=key",
    "/v1/chat/completions?limit=1&limit=2",
    "/admin/v1/keys?tag=a&tag=b",
  ]) {
    const response = await troupe.fetch(path, { key });
    expect([path, response.status, (await response.text()).includes("stands twice")]).toEqual([path, 400, true]);
  }
});

test("without a key nobody is told what a route takes", async () => {
  for (const path of ["/v1/usage?keey=x", "/admin/v1/keys?keey=x", "/v1/chat/completions?keey=x"])
    expect((await fetch(troupe.url + path)).status).toBe(401);
});

test("the ledger is asked only by metadata that its lines have", async () => {
  const { services } = troupe.server;
  const { live } = services;
  services.live = {
    ...live,
    config: { ...live.config, usage: { ...live.config.usage, metadata: ["project", "team"] } },
  };
  const ask = async (path: string) => {
    const response = await troupe.fetch(path, { headers: { authorization: `Bearer ${key}` } });
    return [response.status, await response.json()];
  };
  const message = "No call has metadata.taem: usage.metadata in the configuration names project, team.";
  try {
    for (const base of ["", "/gateway", "/admin"]) {
      expect(await ask(`${base}/v1/usage?by=metadata.taem`)).toMatchObject([400, { error: { param: "by", message } }]);
      expect(await ask(`${base}/v1/usage?metadata[taem]=`)).toMatchObject([
        400,
        { error: { param: "metadata", message } },
      ]);
      expect((await ask(`${base}/v1/usage?metadata[a%20b]=x`))[0]).toBe(400);
      expect((await ask(`${base}/v1/usage?by=metadata.team&metadata[project]=x`))[0]).toBe(200);
    }
    expect(await ask("/admin/v1/calls?metadata[taem]=x")).toMatchObject([400, { error: { message } }]);
  } finally {
    services.live = live;
  }
});
