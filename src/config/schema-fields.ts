/** Builds the fields of the configuration's schema. */
import { type TProperties, type TSchema, Type } from "@sinclair/typebox";

export const closed = { additionalProperties: false } as const;

export const text = (description: string) => Type.String({ minLength: 1, description });

export const optional = <T extends TSchema>(schema: T) => Type.Optional(schema);

export const whole = (minimum: number, maximum: number, byDefault: number, description: string) =>
  Type.Optional(Type.Integer({ minimum, maximum, default: byDefault, description }));

export const flag = (byDefault: boolean, description: string) =>
  Type.Optional(Type.Boolean({ default: byDefault, description }));

export function oneOf<const T extends string>(values: readonly [T, ...T[]], byDefault: T, description: string) {
  return Type.Optional(
    Type.Union(
      values.map((value) => Type.Literal(value)),
      { default: byDefault, description },
    ),
  );
}

/** A mapping that is there, with its defaults, even when the file does not name it. */
export const section = <T extends TProperties>(description: string, properties: T) =>
  Type.Optional(Type.Object(properties, { ...closed, description, default: {} }));

const maxSeconds = 86_400;

export const timeouts = {
  connect_seconds: (byDefault?: number) => seconds("Connect timeout.", byDefault),
  first_byte_seconds: (byDefault?: number) =>
    seconds("Time to first byte: from the request sent to the first byte of the response.", byDefault),
  idle_seconds: (byDefault?: number) => seconds("Idle timeout: between two events of a stream.", byDefault),
};

export function seconds(description: string, byDefault?: number) {
  const bounds = { minimum: 0.1, maximum: maxSeconds, description };
  return Type.Optional(Type.Number(byDefault === undefined ? bounds : { ...bounds, default: byDefault }));
}
