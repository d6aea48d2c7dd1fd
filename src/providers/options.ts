/** The extra options of all providers together, for whoever writes them down before a call names one. */
import { KindGuard, type TProperties, type TSchema, Type } from "@sinclair/typebox";
import type { Provider } from "./provider.ts";

/** An option that several providers read differently may be in any of their forms; an object takes no unknown keys unless it says so. */
export function optionSchemas(providers: readonly Pick<Provider, "name" | "extras">[]): TProperties {
  const byName = new Map<string, Map<TSchema, string[]>>();
  for (const { name: provider, extras } of providers) {
    for (const [name, schema] of Object.entries(extras.properties)) {
      const schemas = byName.get(name) ?? new Map<TSchema, string[]>();
      schemas.set(schema, [...(schemas.get(schema) ?? []), provider]);
      byName.set(name, schemas);
    }
  }
  return Object.fromEntries([...byName].map(([name, schemas]) => [name, Type.Optional(anyOf(schemas))]));
}

/** @param schemas and the providers that have them */
function anyOf(schemas: ReadonlyMap<TSchema, readonly string[]>): TSchema {
  const [first, ...others] = [...schemas].map(([schema, providers]) => described(closed(schema), providers));
  return others.length === 0 ? first! : Type.Union([first!, ...others]);
}

const closed = (schema: TSchema): TSchema =>
  KindGuard.IsObject(schema) ? { additionalProperties: false, ...schema } : schema;

/** Beyond a few the providers are not named. */
function described(schema: TSchema, providers: readonly string[]): TSchema {
  if (providers.length > 3) return schema;
  const names = providers.join(", ");
  return {
    ...schema,
    description: schema.description === undefined ? `For ${names}.` : `For ${names}: ${schema.description}`,
  };
}
