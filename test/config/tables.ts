/**
 * The tables of docs/settings.md, made from the schema so that they say what it says.
 * `bun test/config/tables.ts` writes them anew.
 */
import { join } from "node:path";
import type { TObject, TSchema } from "@sinclair/typebox";
import { McpServerFile } from "../../src/config/mcp.ts";
import { ProviderFile } from "../../src/config/provider-schema.ts";
import { ConfigFile, ListenerFile, StoreFile } from "../../src/config/schema.ts";
import { settings } from "../../src/config/settings.ts";

export const page = join(import.meta.dir, "../../docs/settings.md");

export function tables(): Record<string, string> {
  const own = settings.map(({ path, schema }) => [code(path.join(".")), byDefault(schema), meaning(schema)]);
  const providers = ["`providers`", "none", meaning(ConfigFile.properties.providers)];
  const mcpServers = ["`mcp_servers`", "none", meaning(ConfigFile.properties.mcp_servers)];
  const hostedTools = ["`hosted_tools`", "none", meaning(ConfigFile.properties.hosted_tools)];
  return {
    settings: table(["key", "default", ""], [...joined(own), providers, mcpServers, hostedTools]),
    listener: table(["key of a listener", "default", ""], rows(ListenerFile)),
    store: table(["key of `store`", "default", ""], rows(StoreFile)),
    provider: table(["key of a provider", "default", ""], rows(ProviderFile)),
    mcp_server: table(["key of an MCP server", "default", ""], rows(McpServerFile)),
  };
}

/** Keys of one default and one meaning stand in one row. */
function joined(rows: readonly (readonly string[])[]): string[][] {
  const groups = Map.groupBy(rows, ([, ...rest]) => JSON.stringify(rest));
  return [...groups.values()].map((group) => [group.map(([key]) => key).join(", "), ...group[0]!.slice(1)]);
}

/** The page with every table in its place. */
export function withTables(text: string): string {
  return Object.entries(tables()).reduce(
    (page, [name, lines]) =>
      page.replace(
        new RegExp(`(<!-- ${name} -->\n)[\\s\\S]*?(<!-- /${name} -->)`),
        (_, start, end) => start + lines + end,
      ),
    text,
  );
}

function rows(schema: TObject, above = ""): string[][] {
  return Object.entries(schema.properties).flatMap(([key, inner]) => {
    const name = above + key;
    const below = inner["properties"] as object | undefined;
    if (below === undefined || Object.keys(below).length === 0) return [[code(name), byDefault(inner), meaning(inner)]];
    return [[code(name), byDefault(inner), meaning(inner)], ...rows(inner as TObject, `${name}.`)];
  });
}

/** What the description says of the default stands in its own column. */
const meaning = ({ description = "" }: TSchema) => description.replace(/ ?Default: .*$/, "").replaceAll("|", "\\|");

function byDefault(schema: TSchema): string {
  const value = schema["default"];
  if (value !== undefined && typeof value !== "object") return code(String(value));
  if (Array.isArray(value)) return value.length === 0 ? "none" : code(value.join(", "));
  return /Default: (.*)\.$/.exec(schema.description ?? "")?.[1] ?? "";
}

const code = (text: string) => `\`${text}\``;

function table(head: readonly string[], body: readonly (readonly string[])[]): string {
  return [head, head.map(() => "---"), ...body].map((cells) => `| ${cells.join(" | ")} |\n`).join("");
}

if (import.meta.main) await Bun.write(page, withTables(await Bun.file(page).text()));
