/**
 * Finds in a request, in the format of any provider, the tools that the provider runs itself while it answers: it bills their uses,
 * and what they bring for the model to read. Tools of a known name that the client runs are none.
 */
import { isObject, type JsonObject, listOf, objectOf, textOf } from "../../lib/json/json.ts";
import { truncate } from "../../lib/text/truncate.ts";
import type { BilledTool } from "../../usage/attempt.ts";
import type { BodyNames } from "../read/body-names.ts";

/** In the form of OpenAI and its like, and of Anthropic, whose types end in a date. They run where the client is. */
const clientRun: ReadonlySet<string> = new Set([
  // https://platform.openai.com/docs/guides/tools
  ...["function", "custom", "namespace", "computer", "computer_use_preview", "local_shell", "apply_patch"],
  // https://platform.claude.com/docs/en/agents-and-tools/tool-use/overview
  ...["bash", "text_editor", "computer", "memory"],
]);

const toolset = "mcp_toolset";

/** They cost nothing but their tokens. */
const free: ReadonlySet<string> = new Set([
  // https://platform.openai.com/docs/pricing#built-in-tools
  ...["mcp", "tool_search"],
  // https://platform.claude.com/docs/en/about-claude/pricing#specific-tool-pricing
  ...["web_fetch", "tool_search_tool_regex", "tool_search_tool_bm25", toolset],
]);

/** By the names of members of Gemini's tools, in either spelling, without their marks. */
const gemini: Readonly<Record<string, Partial<BilledTool> | undefined>> = {
  functiondeclarations: undefined,
  computeruse: undefined,
  // https://ai.google.dev/gemini-api/docs/pricing
  googlesearch: { name: "web_search" },
  googlesearchretrieval: { name: "web_search" },
  enterprisewebsearch: { name: "web_search" },
  googlemaps: { name: "google_maps" },
  urlcontext: { isFree: true },
  codeexecution: { isFree: true },
  filesearch: { isFree: true },
  mcpservers: { isFree: true },
};

/** @param names of a request's body, of which what is no tool is passed over */
export function hostedToolsIn(
  { tools, servers }: Pick<BodyNames, "tools" | "servers">,
  body: JsonObject,
): BilledTool[] {
  const found = tools.flatMap(hostedIn);
  // A server's tools may be called where no set of them is declared too.
  const sets = found.filter(({ name }) => name === toolset).length;
  for (let at = sets; at < servers; at += 1) found.push(toolOf(toolset));
  // https://platform.openai.com/docs/api-reference/chat/create#chat-create-web_search_options
  if (body["web_search_options"] != null) found.push(toolOf("web_search"));
  // https://openrouter.ai/docs/guides/features/plugins/overview
  for (const plugin of listOf(body["plugins"])) {
    const id = textOf(objectOf(plugin)?.["id"]);
    if (id !== undefined) found.push(toolOf(id === "web" ? "web_search" : id));
  }
  return found;
}

function hostedIn(tool: JsonObject): BilledTool[] {
  const type = textOf(tool["type"]);
  if (type !== undefined) {
    const name = type.replace(/_20\d{6}$/, "");
    if (clientRun.has(name) || isLocalShell(name, tool)) return [];
    // Anthropic's alone have a bound of their own.
    const maxUses = name === type ? undefined : countIn(tool, "max_uses");
    return [toolOf(name.startsWith("web_search") ? "web_search" : name, maxUses)];
  }
  // Anthropic's own functions have no type.
  if ("input_schema" in tool) return [];
  // https://console.groq.com/docs/compound/built-in-tools
  if (Array.isArray(tool["enabled_tools"]))
    return tool["enabled_tools"].flatMap((name) => (typeof name === "string" ? toolOf(name) : []));
  return Object.entries(tool).flatMap(([member, value]) => {
    const key = member.replaceAll("_", "").toLowerCase();
    if (value == null) return [];
    if (!Object.hasOwn(gemini, key)) return [toolOf(member)];
    const known = gemini[key];
    return known === undefined ? [] : [{ ...toolOf(member), ...known }];
  });
}

/** https://platform.openai.com/docs/guides/tools-shell: it runs in a container of the provider's, or where the client is. */
const isLocalShell = (name: string, tool: JsonObject) =>
  name === "shell" && objectOf(tool["environment"])?.["type"] === "local";

function toolOf(name: string, maxUses?: number): BilledTool {
  return { name: truncate(name), isFree: free.has(name), ...(maxUses !== undefined && { maxUses }) };
}

/** @param names of the members on the way @returns undefined for what is no count */
export function countIn(body: unknown, ...names: string[]): number | undefined {
  let value = body;
  for (const name of names) value = isObject(value) ? value[name] : undefined;
  return typeof value === "number" && value >= 0 ? value : undefined;
}
