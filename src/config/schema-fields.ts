/** Builds the fields of the configuration's schema. */
import { type Static, type TObject, type TProperties, type TSchema, Type } from "@sinclair/typebox";
import { Closed, Words } from "../lib/json/schemas.ts";
import type { Defaulted } from "./filled.ts";

export const text = (description: string) => Type.String({ minLength: 1, description });

export const optional = <T extends TSchema>(schema: T) => Type.Optional(schema);

export const defaulted = <T extends TSchema>(schema: T, byDefault: Static<T>): Defaulted<T> =>
  Type.Optional({ ...schema, default: byDefault }) as Defaulted<T>;

export const whole = (minimum: number, maximum: number, byDefault: number, description: string) =>
  defaulted(Type.Integer({ minimum, maximum, description }), byDefault);

export const flag = (byDefault: boolean, description: string) => defaulted(Type.Boolean({ description }), byDefault);

export function oneOf<const T extends string>(values: readonly [T, ...T[]], byDefault: T, description: string) {
  const schema = Words(values, { description });
  return defaulted(schema, byDefault as Static<typeof schema>);
}

/** A list of texts. */
export const texts = (description: string) => defaulted(Type.Array(Type.String({ minLength: 1 }), { description }), []);

/** A mapping that is there, with its defaults, even when the file does not name it. */
export const section = <T extends TProperties>(description: string, properties: T) =>
  defaulted(Closed(properties, { description }), {} as Static<TObject<T>>);

const maxSeconds = 86_400;

export const timeout = (description: string) => Type.Number({ minimum: 0.1, maximum: maxSeconds, description });

/** Timeouts of calls to upstreams. */
export const timeouts = {
  connect_seconds: timeout("Connect timeout."),
  first_byte_seconds: timeout("Time to first byte: from the request sent to the first byte of the response."),
  idle_seconds: timeout("Idle timeout: between two events of a stream."),
};
