import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { checkChatRequest } from "../../src/protocols/chat/request.ts";
import type { ChatRequest } from "../../src/protocols/chat/schema.ts";
import { ApiError } from "../../src/protocols/errors.ts";
import type { Call, UpstreamRequest } from "../../src/providers/provider.ts";
import { providers } from "../../src/providers/registry.ts";
import { type Family, fixtureFamilies } from "../helpers/fixtures.ts";
import {
  type FieldHandling,
  fieldsDocPath,
  fieldsToCover,
  readFieldHandling,
  renderFieldsDoc,
} from "../helpers/request-fields.ts";
import { textOfBody } from "../helpers/upstream-body.ts";

const plainMessages = [{ role: "user", content: "Hi" }];
const pixel = { mimeType: "image/png", base64: "iVBORw0KGgo=" };

type Sent = { url: string; body: Record<string, unknown>; headers: Readonly<Record<string, string>> };

function encode({ provider, extras: switches }: Family, row: FieldHandling, value: unknown): Sent {
  const fields: Record<string, unknown> = { messages: plainMessages, ...row.with };
  const extras: Record<string, unknown> = { ...switches };
  const key = row.field.split(".")[0]!;
  if (key === "extras") extras[row.field.slice("extras.".length)] = value;
  else if (value !== undefined && key !== "model") fields[key] = value;
  const model = row.model ?? (row.field === "model" ? String(row.example) : (provider.models[0] ?? "any-model"));
  const { model: _, ...request } = checkChatRequest(
    JSON.parse(JSON.stringify({ ...fields, model: `${provider.name}/${model}` })),
  );
  const call: Call = {
    model,
    request: { model: `${provider.name}/${model}`, ...request } as ChatRequest,
    extras,
    account: {
      name: provider.name,
      baseUrl: provider.baseUrl || "https://upstream.test",
      models: [],
      options: {},
      modelRules: [],
    },
    media: new Map(),
  };
  const media = new Map((provider.remoteMedia?.(call) ?? []).map(({ url }) => [url, pixel]));
  return asSent(provider.encode({ ...call, media }));
}

function asSent({ url, body, headers = {} }: UpstreamRequest): Sent {
  return { url, body: JSON.parse(textOfBody(body)), headers };
}

/** All that stands at a path such as `contents[].parts[].inlineData`. */
function valuesAt(value: unknown, path: string): unknown[] {
  let found: unknown[] = [value];
  for (const step of path.split(".")) {
    const name = step.replace(/\[\]$/, "");
    found = found.flatMap((one) => {
      const inner = (one as Record<string, unknown> | undefined | null)?.[name];
      if (inner === undefined) return [];
      return step.endsWith("[]") ? (Array.isArray(inner) ? inner : []) : [inner];
    });
  }
  return found;
}

function check(family: Family, row: FieldHandling): void {
  if (row.handling === "refused") {
    expect(() => encode(family, row, row.example)).toThrow(ApiError);
    try {
      encode(family, row, row.example);
    } catch (error) {
      const { status, param } = error as ApiError;
      expect(status).toBe(400);
      expect(param).toStartWith(row.field.split(".")[0]!);
    }
    return;
  }
  const sent = encode(family, row, row.example);
  const bare = encode(family, row, row.without);
  switch (row.handling) {
    case "passed":
      if (row.field === "model") expect(JSON.stringify(sent)).toContain(String(row.example));
      else expect(valuesAt(sent.body, row.to || row.field.split(".")[0]!)).toContainEqual(row.example);
      return;
    case "mapped":
      if (row.to === "url") {
        if (row.field !== "model") expect(sent.url).not.toBe(bare.url);
        return;
      }
      expect(valuesAt(row.to.startsWith("headers.") ? sent : sent.body, row.to)).not.toEqual([]);
      if (row.field !== "model") expect(sent).not.toEqual(bare);
      return;
    case "dropped":
      expect(sent).toEqual(bare);
  }
}

for (const family of fixtureFamilies()) {
  const rows = readFieldHandling(family.folder);
  describe(family.folder, () => {
    for (const row of rows) test(`${row.field} ${row.model ?? ""} is ${row.handling}`, () => check(family, row));
    test("every field is handled", () => {
      const said = new Set(rows.map(({ field }) => field));
      expect(fieldsToCover.filter((field) => !said.has(field))).toEqual([]);
      const options = Object.keys(family.provider.extras.properties)
        .filter((option) => !(option in family.extras))
        .map((option) => `extras.${option}`);
      expect(options.filter((option) => !said.has(option) && !said.has(option.slice("extras.".length)))).toEqual([]);
    });
  });
}

test("every remote provider says how it handles each field", () => {
  const remote = providers.filter(({ kind }) => kind === "remote").map(({ name }) => name);
  const described = fixtureFamilies().map(({ folder }) => folder);
  expect(remote.filter((name) => !described.includes(name))).toEqual([]);
});

test("docs/fields.md is what the data says (bun test/helpers/request-fields.ts writes it)", () => {
  expect(existsSync(fieldsDocPath) ? readFileSync(fieldsDocPath, "utf8") : "").toBe(renderFieldsDoc());
});
