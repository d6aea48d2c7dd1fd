/** Values in OTLP's form, as its JSON has them. Source: https://github.com/open-telemetry/opentelemetry-proto/blob/main/opentelemetry/proto/common/v1/common.proto */
import { hostname } from "node:os";
import type { BuildInfo } from "../../build-info.ts";

type Attribute = { readonly key: string; readonly value: unknown };

/** Attributes of the names that have a value. */
export function attributes(values: Readonly<Record<string, unknown>>): Attribute[] {
  return Object.entries(values).flatMap(([key, value]) =>
    value === undefined || value === null
      ? []
      : [{ key, value: doubles.has(key) ? { doubleValue: value } : typed(value) }],
  );
}

/** What is measured has one type, whatever its value. */
const doubles = new Set(["gen_ai.usage.cost", "gen_ai.response.time_to_first_chunk"]);

function typed(value: unknown): unknown {
  if (typeof value === "number") return Number.isInteger(value) ? { intValue: String(value) } : { doubleValue: value };
  if (typeof value === "boolean") return { boolValue: value };
  if (Array.isArray(value)) return { arrayValue: { values: value.map((one) => ({ stringValue: String(one) })) } };
  return { stringValue: String(value) };
}

/**
 * @param instance distinguishes this process from its like
 * @param given what the operator says; it stands above what is known anyway
 */
export function resourceOf(given: Readonly<Record<string, string>>, { version }: BuildInfo, instance: string) {
  return {
    attributes: attributes({
      "service.name": "troupe",
      "service.version": version,
      "service.instance.id": instance,
      "host.name": hostname(),
      ...given,
    }),
  };
}
