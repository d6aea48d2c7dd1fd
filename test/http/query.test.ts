/** Every route that takes a query refuses parameters that it does not describe, whatever its format. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { adminRoutes } from "../../src/admin/routes.ts";
import { queryCheckOf } from "../../src/http/query.ts";
import type { Route } from "../../src/http/routes.ts";
import { surfaceRoutes } from "../../src/http/surface-routes.ts";
import { Troupe } from "../helpers/troupe.ts";

const surfaces = ["orchestrator", "gateway", "admin"] as const;
let troupe: Troupe;
let key: string;
beforeAll(async () => {
  const address = { kind: "tcp", host: "127.0.0.1", port: 0 } as const;
  troupe = await Troupe.start({ config: { listen: [{ address, surfaces }] } });
  const { keys } = troupe.server.services;
  key = (await keys.create({ name: "all", tier: "enterprise", perMinute: 100_000, surfaces })).secret;
});
afterAll(() => troupe[Symbol.asyncDispose]());

type Parameter = {
  readonly name: string;
  readonly in: string;
  readonly style?: string;
  readonly schema: { readonly enum?: readonly string[]; readonly maximum?: number };
};
const parametersOf = ({ detail, endings = {} }: Route) =>
  [detail, ...Object.values(endings)]
    .flatMap((one) => (one["parameters"] ?? []) as Parameter[])
    .filter((one) => one.in === "query");

const bases = { orchestrator: "", gateway: "/gateway", admin: "/admin" } as const;
const routes = Object.entries({ ...surfaceRoutes, admin: adminRoutes }).flatMap(([surface, all]) =>
  all
    .filter((route) => parametersOf(route).length > 0)
    .map((route) => ({ route, base: bases[surface as keyof typeof bases] })),
);
const places: Readonly<Record<string, string>> = { "/v1beta/:namespace/*": "/v1beta/builtin/echo:generateContent" };
const personas: Readonly<Record<string, string>> = { "/v1beta/:namespace/*": "/v1beta/troupe/tutor:generateContent" };
const pathOf = ({ path, area }: Route) =>
  (area === "orchestrator" ? personas : places)[path] ??
  path.replace(/:\w+/g, "x").replace("*", "builtin/echo:generateContent");

async function refused({ route, base }: (typeof routes)[number], query: string): Promise<[number, boolean]> {
  const response = await troupe.fetch(`${base}${pathOf(route)}?${query}`, {
    method: route.method,
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    ...(route.method === "POST" && { body: "{}" }),
  });
  return [response.status, (await response.text()).includes(query.split(/[=[]/)[0]!)];
}

test("there are such routes on every surface", () => {
  const found = routes.map(({ route, base }) => `${route.method} ${base}${route.path}`);
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
      "GET /v1/responses/:id",
      "POST /v1beta/models/*",
      "POST /v1/models/*",
      "POST /gateway/v1beta/:namespace/*",
    ]),
  );
});

describe.each(routes.map((one) => [`${one.route.method} ${one.base}${one.route.path}`, one] as const))(
  "%s",
  (_, one) => {
    test("refuses a name that it does not describe", async () => {
      for (const query of ["keey=x", "Limit=1", "limits=1", "meta[data]=1", "%C3%A4=1"])
        expect([query, ...(await refused(one, query))]).toEqual([query, 400, !query.startsWith("%")]);
    });

    if (one.route.protocol !== undefined) return;

    test("refuses values that its parameters have not", async () => {
      for (const { name, schema } of parametersOf(one.route)) {
        if (schema.enum !== undefined)
          expect([name, ...(await refused(one, `${name}=none`))]).toEqual([name, 400, true]);
        if (schema.maximum !== undefined)
          for (const value of ["0x1", "-1", "1.5", schema.maximum + 1, ""])
            expect([name, ...(await refused(one, `${name}=${value}`))]).toEqual([name, 400, true]);
      }
    });
  },
);

test("every parameter that is described is taken by its name", () => {
  for (const { route } of routes) {
    const check = queryCheckOf(route)!;
    for (const { name, style, schema } of parametersOf(route)) {
      const given = style === "deepObject" ? `${name}[team]` : name;
      const value = schema.enum?.[0] ?? String(schema.maximum ?? 1);
      expect(() => check(new URLSearchParams([[given, value]]))).not.toThrow();
    }
  }
});

test("without a key nobody is told what a route takes", async () => {
  const response = await fetch(`${troupe.url}/v1/usage?keey=x`);
  expect(response.status).toBe(401);
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
