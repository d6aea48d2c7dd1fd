/**
 * Writes OTLP's messages as protobuf, from the form that they have as JSON. Fields that we never send are not here.
 * Source of the numbers: https://github.com/open-telemetry/opentelemetry-proto/tree/main/opentelemetry/proto
 */
import { PbfWriter } from "pbf";

type Field = readonly [number: number, form: Form];
/** `hex`: bytes that JSON has as hexadecimal digits. Plurals are repeated, and packed. */
type Form =
  | "string"
  | "hex"
  | "bool"
  | "enum"
  | "int64"
  | "fixed64"
  | "double"
  | "fixed64s"
  | "doubles"
  | Message
  | [Message];
type Message = { readonly [Member in string]: Field };

const anyValue: Message = {
  ...{ stringValue: [1, "string"], boolValue: [2, "bool"], intValue: [3, "int64"], doubleValue: [4, "double"] },
  arrayValue: [5, { values: [1, [{ stringValue: [1, "string"] }]] }],
};
const attributes: Field[1] = [{ key: [1, "string"], value: [2, anyValue] }];
const resource: Message = { attributes: [1, attributes] };
const scope: Message = { name: [1, "string"] };

const span: Message = {
  ...{ traceId: [1, "hex"], spanId: [2, "hex"], parentSpanId: [4, "hex"], name: [5, "string"], kind: [6, "enum"] },
  ...{ startTimeUnixNano: [7, "fixed64"], endTimeUnixNano: [8, "fixed64"], attributes: [9, attributes] },
  status: [15, { message: [2, "string"], code: [3, "enum"] }],
};

const times: Message = { startTimeUnixNano: [2, "fixed64"], timeUnixNano: [3, "fixed64"] };
const numbers: Form = [{ ...times, asDouble: [4, "double"], attributes: [7, attributes] }];
const histograms: Form = [
  {
    ...{ ...times, count: [4, "fixed64"], sum: [5, "double"], bucketCounts: [6, "fixed64s"] },
    ...{ explicitBounds: [7, "doubles"], attributes: [9, attributes] },
  },
];
const metric: Message = {
  ...{ name: [1, "string"], description: [2, "string"], unit: [3, "string"] },
  gauge: [5, { dataPoints: [1, numbers] }],
  sum: [7, { dataPoints: [1, numbers], aggregationTemporality: [2, "enum"], isMonotonic: [3, "bool"] }],
  histogram: [9, { dataPoints: [1, histograms], aggregationTemporality: [2, "enum"] }],
};

/** What is sent: `ExportTraceServiceRequest` or `ExportMetricsServiceRequest`, each of one member, which its JSON names. */
const request: Message = {
  resourceSpans: [1, [{ resource: [1, resource], scopeSpans: [2, [{ scope: [1, scope], spans: [2, [span]] }]] }]],
  resourceMetrics: [
    1,
    [{ resource: [1, resource], scopeMetrics: [2, [{ scope: [1, scope], metrics: [2, [metric]] }]] }],
  ],
};

/** @param message `{resourceSpans}` or `{resourceMetrics}`, as JSON has it */
export function protobufOf(message: object): Uint8Array<ArrayBuffer> {
  const writer = new PbfWriter();
  write(request, message, writer);
  return writer.finish() as Uint8Array<ArrayBuffer>;
}

function write(fields: Message, value: object, writer: PbfWriter): void {
  for (const [member, own] of Object.entries(value)) {
    const field = fields[member];
    if (field === undefined) throw new Error(`OTLP has no field ${member} here`);
    writeField(field, own, writer);
  }
}

function writeField([number, form]: Field, value: unknown, writer: PbfWriter): void {
  const message = (one: Message, own: unknown) =>
    writer.writeMessage(number, (inner: unknown, to: PbfWriter) => write(one, inner as object, to), own);
  if (Array.isArray(form)) for (const one of value as unknown[]) message(form[0] as Message, one);
  else if (typeof form === "object") message(form as Message, value);
  else if (form === "string") writer.writeStringField(number, value as string);
  // A span without a parent has none, in place of one without digits.
  else if (form === "hex") value !== "" && writer.writeBytesField(number, Buffer.from(value as string, "hex"));
  else if (form === "bool") writer.writeBooleanField(number, value as boolean);
  else if (form === "enum" || form === "int64") writer.writeVarintField(number, Number(value));
  else if (form === "double") writer.writeDoubleField(number, value as number);
  else if (form === "doubles") writer.writePackedDouble(number, value as number[]);
  else if (form === "fixed64s") writer.writePackedFixed64(number, (value as string[]).map(Number));
  else {
    // The library takes a number, which has not enough digits for nanoseconds.
    const bits = BigInt(value as string);
    writer.writeTag(number, 1);
    writer.writeFixed32(Number(bits & 0xffffffffn));
    writer.writeFixed32(Number(bits >> 32n));
  }
}
