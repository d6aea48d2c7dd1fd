import { describe, expect, test } from "bun:test";
import { Type } from "@sinclair/typebox";
import { splitExtras } from "../../../src/protocols/chat/extras.ts";
import type { ChatRequest } from "../../../src/protocols/chat/schema.ts";
import { ApiError } from "../../../src/protocols/errors.ts";

const google = Type.Object({
  thinking_budget: Type.Optional(Type.Integer()),
  include_thoughts: Type.Optional(Type.Boolean()),
  store: Type.Optional(Type.Boolean()),
  nested: Type.Optional(Type.Object({ ttl: Type.String() })),
});
const catalog = {
  options: new Set(["thinking_budget", "include_thoughts", "store", "nested", "system_cache_control"]),
  namespaces: new Set(["google", "anthropic", "gemini-eu"]),
};
const base = { model: "m", messages: [] };
const split = (changes: object, namespaces = ["google"]) =>
  splitExtras({ ...base, ...changes } as ChatRequest, namespaces, google, catalog);

describe("splitExtras", () => {
  test("reads the top level, then extra_body, then the namespace; the first place wins", () => {
    const everywhere = {
      thinking_budget: 1,
      extra_body: { thinking_budget: 2, include_thoughts: true, google: { thinking_budget: 3 } },
      google: { thinking_budget: 4, include_thoughts: false, nested: { ttl: "x" } },
    };
    expect(split(everywhere).extras).toEqual({ thinking_budget: 1, include_thoughts: true, nested: { ttl: "x" } });
    expect(split({ google: { thinking_budget: 4 } }).extras).toEqual({ thinking_budget: 4 });
    expect(split({ extra_body: { google: { thinking_budget: 3 } } }).extras).toEqual({ thinking_budget: 3 });
  });

  test("an account's own name is a namespace too", () => {
    const request = { "gemini-eu": { thinking_budget: 5 }, google: { thinking_budget: 6 } };
    expect(split(request, ["gemini-eu", "google"]).extras).toEqual({ thinking_budget: 5 });
  });

  test("no option travels on as it came; other unknown fields do, from extra_body too", () => {
    const { request } = split({
      thinking_budget: 1,
      system_cache_control: { type: "ephemeral" },
      google: { thinking_budget: 1 },
      anthropic: { x: 1 },
      extra_body: { top_k: 5, temperature: 1, include_thoughts: true },
      temperature: 0,
      custom: true,
    });
    expect(request as unknown).toEqual({ ...base, temperature: 0, top_k: 5, custom: true });
  });

  test("a standard field that is an option too stays in the request", () => {
    const { request, extras } = split({ store: true });
    expect(request.store).toBe(true);
    expect(extras).toEqual({ store: true });
  });

  test("another family's option is ignored, whatever it holds", () => {
    expect(split({ system_cache_control: 5, anthropic: "text" }).extras).toEqual({});
  });

  test.each([
    [{ thinking_budget: "1" }, "thinking_budget"],
    [{ thinking_budget: 1.5 }, "thinking_budget"],
    [{ extra_body: { include_thoughts: 1 } }, "extra_body.include_thoughts"],
    [{ google: { include_thoughts: "yes" } }, "google.include_thoughts"],
    [{ nested: { ttl: 5 } }, "nested.ttl"],
  ])("%j is 400 naming %s", (changes, param) => {
    expect(() => split(changes)).toThrow(ApiError);
    try {
      split(changes);
    } catch (error) {
      expect(error).toMatchObject({ status: 400, code: "invalid_value", param });
    }
  });

  test("null is absent", () => {
    expect(split({ thinking_budget: null, google: { thinking_budget: 2 } }).extras).toEqual({ thinking_budget: 2 });
  });
});
