/**
 * Anthropic's reports: `GET /v1/organizations/cost_report` and `GET /v1/organizations/usage_report/messages`
 * (https://platform.claude.com/docs/en/api/admin/cost_report, …/usage_report), and the files that its console exports. Costs are decimals
 * of cents there, and dollars in the files; what is billed by the priority tier is in no report of costs.
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
  ...{ amount: Text, currency: Text, cost_type: Text, description: Text, token_type: Text },
  ...{ model: Text, service_tier: Text, workspace_id: Text },
  ...{ uncached_input_tokens: Count, cache_read_input_tokens: Count, output_tokens: Count },
  cache_creation: Nullable(Open({ ephemeral_5m_input_tokens: Count, ephemeral_1h_input_tokens: Count })),
});
const Page = Open({
  data: Type.Array(Open({ starting_at: Type.String(), ending_at: Type.String(), results: Type.Array(Result) })),
  has_more: Type.Boolean(),
  next_page: Text,
});

export const anthropic: Vendor<typeof Page> = {
  name: "anthropic",
  host: "anthropic.com",
  variable: "ANTHROPIC_ADMIN_KEY",
  page: Page,
  headers: (key) => ({ "x-api-key": key, "anthropic-version": "2023-06-01" }),
  asked: ({ since, until, projects }) =>
    [
      {
        kind: "costs",
        path: "/v1/organizations/cost_report",
        by: ["description", ...(projects.length > 0 ? ["workspace_id"] : [])],
      },
      { kind: "usage", path: "/v1/organizations/usage_report/messages", by: ["model", "service_tier"] },
    ].map(({ kind, path, by }) => ({
      kind: kind as Reported["kind"],
      path,
      query: [
        ["starting_at", new Date(since).toISOString()],
        ["ending_at", new Date(until).toISOString()],
        ["bucket_width", "1d"],
        ["limit", "31"],
        ...by.map((group): [string, string] => ["group_by[]", group]),
        // The report of costs is narrowed down by its lines.
        ...(kind === "usage" ? projects : []).map((project): [string, string] => ["workspace_ids[]", project]),
      ],
    })),
  lines: ({ data }, place, { kind, lines, days }, projects) => {
    for (const [at, { starting_at, ending_at, results }] of data.entries()) {
      const here = `${place}: data[${at}]`;
      const day = wholeDay(starting_at, ending_at, here);
      days?.add(day);
      for (const result of results) {
        const { amount, currency, model, service_tier, workspace_id } = result;
        const isOther = kind === "costs" && projects.length > 0 && !projects.includes(workspace_id ?? "");
        if (isOther) continue;
        if (kind === "costs") {
          const item = result.cost_type === "tokens" ? undefined : (result.description ?? result.cost_type);
          lines.push(
            costLine({ day, model, tier: service_tier, item, currency }, amountOf(amount ?? "", 2), amount, here),
          );
        } else {
          const [read, written] = [result.cache_read_input_tokens ?? 0, result.cache_creation];
          const cacheWrite = (written?.ephemeral_5m_input_tokens ?? 0) + (written?.ephemeral_1h_input_tokens ?? 0);
          const input = (result.uncached_input_tokens ?? 0) + read + cacheWrite;
          const tokens = { input, cacheRead: read, cacheWrite, output: result.output_tokens ?? 0 };
          lines.push({ day, tier: tierOf(service_tier), ...(model && { model: modelName(model) }), tokens });
        }
      }
    }
  },
  files: [
    { kind: "costs", column: "cost_usd", lines: costRow },
    { kind: "usage", column: "usage_input_tokens_no_cache", lines: usageRow },
  ],
};

function costRow(row: Cells, place: string): ReportedLine[] {
  const isToken = /^tokens?$/.test(row["cost_type"] || "token");
  const item = isToken ? undefined : row["token_type"] || row["cost_type"];
  const named = {
    day: dayIn(row["usage_date_utc"] ?? "", place),
    model: row["model"],
    tier: row["usage_type"],
    item,
  };
  return [costLine({ ...named, currency: "usd" }, amountOf(row["cost_usd"]!), row["cost_usd"], place)];
}

function usageRow(row: Cells, place: string): ReportedLine[] {
  const tokens = (column: string) => number(row, `usage_${column}`, place);
  const cacheRead = tokens("input_tokens_cache_read");
  const cacheWrite = tokens("input_tokens_cache_write_5m") + tokens("input_tokens_cache_write_1h");
  const input = tokens("input_tokens_no_cache") + cacheRead + cacheWrite;
  return [
    {
      day: dayIn(row["usage_date_utc"] ?? "", place),
      ...(row["model_version"] && { model: modelName(row["model_version"]) }),
      tier: tierOf(row["usage_type"]),
      tokens: { input, cacheRead, cacheWrite, output: tokens("output_tokens") },
    },
  ];
}

type Named = {
  readonly day: string;
  readonly model: string | null | undefined;
  readonly tier: string | null | undefined;
  readonly item: string | null | undefined;
  readonly currency: string | null | undefined;
};

function costLine(
  { day, model, tier, item, currency }: Named,
  cost: bigint | undefined,
  written: string | null | undefined,
  place: string,
): ReportedLine {
  if (cost === undefined) throw new ReportError(`${place}: '${String(written).slice(0, 40)}' is no amount`);
  return {
    day,
    tier: tierOf(tier),
    ...(item ? { item } : model ? { model: modelName(model) } : {}),
    ...{ cost, currency: (currency || "usd").toLowerCase() },
  };
}
