/** What the API's description says is what the server does, whatever it is sent. */
import { describe, expect, test } from "bun:test";
import Ajv from "ajv/dist/2020.js";
import fc from "fast-check";
import { adminRoutes } from "../../src/admin/routes.ts";
import { openApiDocument } from "../../src/http/app.ts";
import { fitting, type Schema, spoilt } from "../helpers/json-schema-values.ts";
import { runs } from "../helpers/long-form.ts";
import { resolved } from "../helpers/resolved-description.ts";
import { untilEnd } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";

type Content = Record<string, { schema?: Schema; examples?: Record<string, { value: unknown }> }>;
type Header = { required?: boolean; schema: Schema };
type Answer = { content?: Content; headers?: Record<string, Header> };
type Parameter = { name: string; in: "path" | "query" | "header"; schema: Schema; example?: string };
type SecurityScheme = { type: "http"; scheme: "bearer" } | { type: "apiKey"; in: "header"; name: string };
type Operation = {
  operationId: string;
  security: Record<string, []>[];
  parameters?: Parameter[];
  requestBody?: { content: Content };
  responses: Record<string, Answer>;
};
type Document = {
  paths: Record<string, Record<string, Operation>>;
  components: { securitySchemes: Record<string, SecurityScheme> };
};

const document = resolved(await openApiDocument()) as Document;
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
);

const adminDocument = resolved(await openApiDocument(["admin"], adminRoutes)) as Document;
const adminOperations = Object.entries(adminDocument.paths).flatMap(([path, methods]) =>
  Object.entries(methods)
    .filter(() => path.startsWith("/admin/"))
    .map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
);

const ajv = new Ajv({ strict: false, logger: false });
ajv.addSchema({ $id: "document", components: document.components });
/** By a schema, and by its text: most operations have the same answers. */
const checks = new Map<Schema | string, ReturnType<typeof ajv.compile>>();

function checkOf(text: string) {
  const check = checks.get(text) ?? ajv.compile(JSON.parse(text));
  checks.set(text, check);
  return check;
}

function problemsOf(schema: Schema, value: unknown): unknown {
  const check =
    checks.get(schema) ?? checkOf(JSON.stringify(schema).replaceAll('"#/components', '"document#/components'));
  checks.set(schema, check);
  return check(value) ? [] : check.errors;
}

/** As declared: the status, its headers, its media type, and a body of its schema. */
async function expectDeclared(operation: Operation, response: Response): Promise<void> {
  const text = await response.text();
  const declared = operation.responses[response.status] ?? operation.responses["default"];
  if (declared === undefined) throw new Error(`${operation.operationId} answered ${response.status}: ${text}`);
  expect(response.status).not.toBe(500);
  for (const [name, { required }] of Object.entries(declared.headers ?? {})) {
    if (required === true) expect([name, response.headers.has(name)]).toEqual([name, true]);
  }
  const type = response.headers.get("content-type")!.split(";")[0]!;
  const content = declared.content ?? {};
  if (Object.keys(content).length > 0) expect(Object.keys(content)).toContain(type);
  const schema = content[type]?.schema;
  if (schema === undefined) return;
  if (type === "text/event-stream") for (const event of eventsOf(text)) expect(problemsOf(schema, event)).toEqual([]);
  else expect(problemsOf(schema, type === "application/json" ? JSON.parse(text) : text)).toEqual([]);
}

/** Events of a stream that readers get: those without data only keep it alive, or say where it is. */
const eventsOf = (text: string) =>
  text.split("\n\n").flatMap((event) => {
    const fields = [...event.matchAll(/^(event|data|id): ?(.*)$/gm)].map(([, name, value]) => [name, value]);
    const fit = Object.fromEntries(fields) as { data?: string };
    return fit.data === undefined ? [] : [fit];
  });

type Sent = { readonly path: string; readonly headers: [string, string][]; readonly body?: string };

function keyHeader(name: string, key: string): [string, string] {
  const scheme = document.components.securitySchemes[name]!;
  return scheme.type === "http" ? ["authorization", `Bearer ${key}`] : [scheme.name, key];
}

/** Names that lead somewhere, among those that do not. */
const models = fc.constantFrom("builtin/echo", "builtin/eliza", "troupe/guide", "troupe/translator", "no/such", "x");

function requests(path: string, { parameters = [], requestBody }: Operation): fc.Arbitrary<Sent> {
  const values = parameters.map((parameter) => {
    const { name, schema } = parameter;
    const good = (name === "id" ? fc.oneof(models, fc.string()) : fitting(schema)).filter(
      // A client takes these out of a path before it asks.
      (one) => parameter.in !== "path" || !/^\.{1,2}$/.test(String(one)),
    );
    return fc.option(parameter.in === "path" ? good : fc.oneof(good, fc.string()), {
      nil: parameter.in === "path" ? "x" : undefined,
    });
  });
  const schema = requestBody?.content["application/json"]?.schema;
  const body = schema === undefined ? fc.constant(undefined) : fc.oneof(bodies(schema), spoilt(bodies(schema)));
  return fc.tuple(fc.tuple(...values), body).map(([given, json]) => {
    let target = path;
    const query = new URLSearchParams();
    const headers: [string, string][] = [];
    for (const [at, { name, in: place }] of parameters.entries()) {
      const value = given[at];
      if (value === undefined) continue;
      if (place === "path") target = target.replace(`{${name}}`, encodeURIComponent(String(value) || "x"));
      else if (place === "header") headers.push([name, encodeURIComponent(String(value))]);
      else if (typeof value !== "object" || value === null) query.append(name, String(value));
      else for (const [key, one] of Object.entries(value)) query.append(`${name}[${key}]`, String(one));
    }
    const search = query.size > 0 ? `?${query}` : "";
    return { path: target + search, headers, ...(json !== undefined && { body: JSON.stringify(json) }) };
  });
}

/** Objects that make no text: whatever puts a refused value into a message breaks by them. */
const namesakes = (name: string) => [
  { [name]: { toString: "" } },
  { [name]: { toString: 1, valueOf: 2 } },
  { [name]: { toJSON: 1 } },
];

const bodyOf = ({ requestBody }: Operation): Schema => requestBody?.content["application/json"]?.schema ?? {};

const bodies = (schema: Schema) =>
  fc.tuple(fitting(schema), models).map(([body, model]) => ({ ...(body as object), ...modelOf(schema, model) }));

const modelOf = (schema: Schema, model: string) =>
  "model" in ((schema["properties"] ?? {}) as object) ? { model } : {};

const troupe = untilEnd(await Troupe.start());
const listen = [{ address: { kind: "tcp" as const, host: "127.0.0.1", port: 0 }, surfaces: ["admin" as const] }];
const admin = untilEnd(await Troupe.start({ config: { listen } }));

describe("the API's description, against a running server", () => {
  test.each(operations.map((one) => [one.operation.operationId, one] as const))(
    "%s answers what it declares",
    async (_id, { path, method, operation }) => {
      const send = (sent: Sent, key = troupe.key, scheme = "apiKey") =>
        troupe.fetch(sent.path, {
          method,
          key: null,
          headers: [
            ...sent.headers,
            keyHeader(scheme, key),
            ...(sent.body === undefined ? [] : [["content-type", "application/json"]]),
          ] as never,
          ...(sent.body !== undefined && { body: sent.body }),
        });
      await fc.assert(
        fc.asyncProperty(requests(path, operation), async (sent) => expectDeclared(operation, await send(sent))),
        { numRuns: runs(operation.requestBody === undefined ? 60 : 150) },
      );
      const [some] = fc.sample(requests(path, operation), { numRuns: 1, seed: 1 });
      const open = operation.security.length === 0;
      for (const scheme of open ? ["apiKey"] : operation.security.flatMap(Object.keys)) {
        const refused = await send(some!, "no key", scheme);
        if (!open) expect(refused.status).toBe(401);
        await expectDeclared(operation, refused);
        const taken = await send(some!, troupe.key, scheme);
        expect(taken.status).not.toBe(401);
        await expectDeclared(operation, taken);
      }
      const refused = "put" in document.paths[path]! ? "OPTIONS" : "PUT";
      const other = await troupe.fetch(some!.path, { method: refused });
      expect(other.status).toBe(405);
      await expectDeclared(operation, other);
    },
  );

  test("its examples work without any provider's key", async () => {
    let tried = 0;
    for (const { path, method, operation } of operations) {
      const examples = operation.requestBody?.content["application/json"]?.examples ?? {};
      for (const { value } of Object.values(examples)) {
        if (path.includes("{id}")) continue;
        const response = await troupe.fetch(path, {
          method,
          headers: { "content-type": "application/json" },
          body: JSON.stringify(value),
        });
        expect(response.status).toBe(200);
        await expectDeclared(operation, response);
        tried += 1;
      }
      const example = operation.parameters?.find(({ name }) => name === "id")?.example;
      if (example === undefined) continue;
      const response = await troupe.fetch(path.replace("{id}", example));
      expect(response.status).toBe(200);
      await expectDeclared(operation, response);
      tried += 1;
    }
    expect(tried).toBeGreaterThanOrEqual(9);
  });

  test("an answer that was stored is reached by its links", async () => {
    const byId = new Map(operations.map((one) => [one.operation.operationId, one]));
    for (const surface of ["orchestrator", "gateway"]) {
      const create = byId.get(`${surface}CreateChatCompletion`)!;
      const { value } = create.operation.requestBody!.content["application/json"]!.examples!["stored"]!;
      const { id } = (await (await troupe.post(create.path, value)).json()) as { id: string };
      for (const what of ["List", "Get", "Messages", "Update", "Delete"]) {
        const { path, method, operation } = byId.get(`${surface}StoredCompletion${what}`)!;
        const body = operation.requestBody?.content["application/json"]?.examples?.["label"]?.value;
        const response = await troupe.fetch(path.replace("{id}", id), {
          method,
          ...(body !== undefined && { body: JSON.stringify(body), headers: { "content-type": "application/json" } }),
        });
        expect(response.status).toBe(200);
        await expectDeclared(operation, response);
      }
    }
  });

  test("a server that drains or has lost its storage answers as declared too", async () => {
    await using troupe = await Troupe.start();
    const { services } = troupe.server;
    services.store.maintenance.check = async () => {
      throw new Error("disk I/O error");
    };
    services.draining = true;
    const statuses: number[] = [];
    for (const { path, method, operation } of operations.filter(({ method }) => method === "GET")) {
      const response = await troupe.fetch(path.replace("{id}", "x"), { method });
      statuses.push(response.status);
      await expectDeclared(operation, response);
    }
    expect(statuses.filter((status) => status === 503).length).toBeGreaterThan(6);
    services.draining = false;
  });
});

describe("the admin API's description, against a running server", () => {
  // The tail never ends; its own tests read it.
  const ended = adminOperations.filter(({ operation }) => operation.operationId !== "adminTailCalls");

  test("has every operation but the tail", () => expect(ended).toHaveLength(adminOperations.length - 1));

  test.each(ended.map((one) => [one.operation.operationId, one] as const))(
    "%s answers what it declares",
    async (_id, { path, method, operation }) => {
      const key = await admin.createKey({ name: "admin", tier: "pro", perMinute: 1_000_000, surfaces: ["admin"] });
      const send = (sent: Sent, given: string) =>
        admin.fetch(sent.path, {
          method,
          key: given,
          headers: [
            ...sent.headers,
            ...(sent.body === undefined ? [] : [["content-type", "application/json"]]),
          ] as never,
          ...(sent.body !== undefined && { body: sent.body }),
        });
      await fc.assert(
        fc.asyncProperty(requests(path, operation), async (sent) => expectDeclared(operation, await send(sent, key))),
        { numRuns: runs(60) },
      );
      for (const value of Object.keys(bodyOf(operation)["properties"] ?? {}).flatMap(namesakes)) {
        await expectDeclared(
          operation,
          await send({ path: path.replaceAll(/\{\w+\}/g, "x"), headers: [], body: JSON.stringify(value) }, key),
        );
      }
      // Signing in alone is for strangers.
      if (operation.operationId === "adminSignIn") return;
      const [some] = fc.sample(requests(path, operation), { numRuns: 1, seed: 1 });
      for (const [stranger, status] of [
        ["no key", 401],
        [admin.key, 403],
      ] as const) {
        const refused = await send(some!, stranger);
        expect(refused.status).toBe(status);
        await expectDeclared(operation, refused);
      }
    },
  );
});
