/**
 * OpenAI's reports: `GET /v1/organization/costs` and `GET /v1/organization/usage/…`
 * (https://platform.openai.com/docs/api-reference/usage), and the files that its dashboard exports, with the same names as columns.
 */
import { Type } from "@sinclair/typebox";
import { Nullable, Open } from "../../lib/json/schemas.ts";
import {
  amountOf,
  dayIn,
  modelName,
  ReportError,
  type Reported,
  type ReportedLine,
  tierOf,
  wholeDay,
} from "./reported.ts";
import { type Cells, number, type Vendor } from "./vendor.ts";

const Count = Nullable(Type.Number());
const Text = Nullable(Type.String({ maxLength: 1000 }));

const Result = Open({
  object: Type.String(),
  amount: Nullable(Open({ value: Nullable(Type.Union([Type.Number(), Type.String()])), currency: Text })),
  ...{ line_item: Text, project_id: Text },
  ...{ input_tokens: Count, output_tokens: Count, input_cached_tokens: Count, input_cache_write_tokens: Count },
  ...{ num_model_requests: Count, model: Text, batch: Nullable(Type.Boolean()), service_tier: Text },
});
const Page = Open({
  data: Type.Array(Open({ start_time: Type.Integer(), end_time: Type.Integer(), results: Type.Array(Result) })),
  has_more: Type.Boolean(),
  next_page: Text,
});

export const openai: Vendor<typeof Page> = {
  name: "openai",
  host: "openai.com",
  variable: "OPENAI_ADMIN_KEY",
  page: Page,
  headers: (key) => ({ authorization: `Bearer ${key}` }),
  // Embeddings have a report of their own; what is billed by seconds or images has no tokens that the ledger counts alike.
  asked: ({ since, until, projects }) =>
    [
      { kind: "costs", path: "/organization/costs", limit: 180, by: ["line_item"] },
      { kind: "usage", path: "/organization/usage/completions", limit: 31, by: ["model", "batch", "service_tier"] },
      { kind: "usage", path: "/organization/usage/embeddings", limit: 31, by: ["model"] },
    ].map(({ kind, path, limit, by }) => ({
      kind: kind as Reported["kind"],
      path,
      query: [
        ["start_time", String(since / 1000)],
        ["end_time", String(until / 1000)],
        ["bucket_width", "1d"],
        ["limit", String(limit)],
        ...by.map((group): [string, string] => ["group_by[]", group]),
        ...projects.map((project): [string, string] => ["project_ids[]", project]),
      ],
    })),
  lines: ({ data }, place, { lines, days }) => {
    for (const [at, { start_time, end_time, results }] of data.entries()) {
      const here = `${place}: data[${at}]`;
      const day = wholeDay(start_time, end_time, here);
      days?.add(day);
      for (const result of results) {
        const { amount, line_item, batch, service_tier, model } = result;
        if (result.object === "organization.costs.result")
          lines.push(costLine(day, amount?.value ?? 0, amount?.currency, line_item, here));
        else
          lines.push({
            day,
            ...(model && { model: modelName(model) }),
            tier: batch === true ? "batch" : tierOf(service_tier),
            calls: result.num_model_requests ?? 0,
            tokens: {
              input: result.input_tokens ?? 0,
              cacheRead: result.input_cached_tokens ?? 0,
              cacheWrite: result.input_cache_write_tokens ?? 0,
              output: result.output_tokens ?? 0,
            },
          });
      }
    }
  },
  files: [
    { kind: "costs", column: "amount_value", lines: costRow },
    { kind: "usage", column: "num_model_requests", lines: usageRow },
  ],
};

const dayOfRow = (row: Cells, place: string) => dayIn(row["start_time_iso"] || number(row, "start_time", place), place);

/** Days without anything are rows without values. */
function costRow(row: Cells, place: string): ReportedLine[] {
  if (row["amount_value"] === "") return [];
  return [costLine(dayOfRow(row, place), row["amount_value"]!, row["amount_currency"], row["line_item"], place)];
}

function usageRow(row: Cells, place: string): ReportedLine[] {
  if (row["num_model_requests"] === "") return [];
  const tokens = (column: string) => number(row, column, place);
  return [
    {
      day: dayOfRow(row, place),
      ...(row["model"] && { model: modelName(row["model"]) }),
      tier: row["batch"]?.toLowerCase() === "true" ? "batch" : tierOf(row["service_tier"]),
      calls: number(row, "num_model_requests", place),
      tokens: {
        input: tokens("input_tokens"),
        cacheRead: tokens("input_cached_tokens"),
        cacheWrite: tokens("input_cache_write_tokens"),
        output: tokens("output_tokens"),
      },
    },
  ];
}

/**
 * A line item names the tier, the model, the medium and the kind of token in one text: `<model>-2026-04-23, cached input`,
 * `priority | <model>, output, long context`, `<model> audio, input`; and what is no model's in words:
 * `web search tool calls`.
 */
function costLine(
  day: string,
  value: string | number,
  currency: string | null | undefined,
  item: string | null | undefined,
  place: string,
): ReportedLine {
  const cost = amountOf(String(value));
  if (cost === undefined) throw new ReportError(`${place}: '${String(value).slice(0, 40)}' is no amount`);
  const [, tier, model] = /^(?:(\w+) \| )?([^\s,]+)(?: (?:text|audio|image|video))?, /.exec(item ?? "") ?? [];
  return {
    day,
    tier: tierOf(tier),
    ...(model !== undefined ? { model: modelName(model) } : item ? { item } : {}),
    ...{ cost, currency: (currency || "usd").toLowerCase() },
  };
}
