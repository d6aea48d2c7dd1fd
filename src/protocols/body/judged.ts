/**
 * Ranges and words of fields that an upstream of the request's own format judges by itself, as the request goes there as it came. Where it
 * is translated they hold.
 */
import type { TSchema } from "@sinclair/typebox";
import type { JsonObject } from "../../lib/json/json.ts";

const elsewhere = Symbol("elsewhere");

/** @param schema what a translated request may say, which is described @param may what may be said to an upstream of the same format */
export const Judged = <T extends TSchema>(schema: T, may: TSchema): T => ({ ...schema, [elsewhere]: may });

const made = new WeakMap<TSchema, TSchema>();

/** @returns the schema of what goes to an upstream of the same format; made once */
export function loosened(schema: TSchema): TSchema {
  let loose = made.get(schema);
  if (loose === undefined) {
    loose = loosen(schema);
    made.set(schema, loose);
  }
  return loose;
}

function loosen(schema: TSchema): TSchema {
  const may = (schema as { [elsewhere]?: TSchema })[elsewhere];
  if (may !== undefined) return may;
  const { properties, anyOf, items } = schema as JsonObject;
  const each = ([name, one]: [string, unknown]) => [name, loosen(one as TSchema)] as const;
  return {
    ...schema,
    ...(properties !== undefined && { properties: Object.fromEntries(Object.entries(properties as object).map(each)) }),
    ...(anyOf !== undefined && { anyOf: (anyOf as TSchema[]).map(loosen) }),
    ...(items !== undefined && { items: loosen(items as TSchema) }),
  };
}

/** -1 says that it is not set: https://github.com/langchain-ai/langchainjs/blob/main/libs/providers/langchain-anthropic/src/chat_models.ts */
const unset = -1;

/** @param names of fields whose -1 says that they are not set @returns the body without those; itself where there are none */
export function withoutUnset<B extends object>(body: B, names: readonly string[]): B {
  let next = body;
  for (const name of names) {
    if ((body as JsonObject)[name] !== unset) continue;
    if (next === body) next = { ...body };
    delete (next as JsonObject)[name];
  }
  return next;
}
