/**
 * `find_tools`: a search over the names, arguments and descriptions of tools, for calls with more of them than a model should be given at
 * once. A request is read by its whole words, without their endings; the rarer a word is among the tools, the more it counts.
 */
import { objectOf } from "../lib/json/json.ts";
import type { FunctionTool } from "../protocols/chat/schema.ts";
import type { CallableTool } from "./grants.ts";
import type { McpTool } from "./tool.ts";
import { kinOf, stemsIn } from "./words.ts";

const maxFound = 10;
/** So much of a description is shown. */
const maxShown = 200;
/** Of a query, in characters, and of its words. */
const maxQuery = 2_000;
const maxWords = 50;

/** @param name `find_tools`, or another where that is taken */
export function findToolsDefinition(name: string, tools: number): FunctionTool {
  return {
    type: "function",
    function: {
      name,
      description: `Searches ${tools} further tools by words of their names, arguments and descriptions. The tools that it finds can be called from then on.`,
      parameters: {
        type: "object",
        properties: { query: { type: "string", description: "A few words that say what the tool should do." } },
        required: ["query"],
      },
    },
  };
}

/** What a word counts by where it stands: in the tool's name, its server's, the first sentence, arguments, the whole description. */
const weights = { name: 3, server: 1.5, purpose: 1.5, arguments: 1, description: 0.7 } as const;
type Field = keyof typeof weights;
/** What another word for the same counts, against the word itself. */
const kinShare = 0.5;

/** The weight of each stem of a tool. */
type Indexed = ReadonlyMap<string, number>;

/** @returns the best matches, the best first */
export function findTools(tools: readonly CallableTool[], query: string): CallableTool[] {
  const asked = stemsIn(query.slice(0, maxQuery)).slice(0, maxWords);
  const indexes = tools.map((tool) => ({ tool, stems: indexOf(tool) }));
  const scores = new Map<CallableTool, number>();
  for (const stem of asked) {
    const others = kinOf(stem);
    const matched = indexes.flatMap(({ tool, stems }) => {
      const kin = Math.max(0, ...others.map((other) => stems.get(other) ?? 0));
      const weight = Math.max(stems.get(stem) ?? 0, kin * kinShare);
      return weight === 0 ? [] : [{ tool, weight }];
    });
    const rarity = Math.log(1 + tools.length / matched.length);
    for (const { tool, weight } of matched) scores.set(tool, (scores.get(tool) ?? 0) + weight * rarity);
  }
  const scored = tools.flatMap((tool) => ({ tool, score: scores.get(tool) ?? 0 })).filter(({ score }) => score > 0);
  // Sorting is stable: equals stay in the order of the persona's list.
  return scored
    .toSorted((a, b) => b.score - a.score)
    .slice(0, maxFound)
    .map(({ tool }) => tool);
}

export function foundText(found: readonly CallableTool[]): string {
  if (found.length === 0) return "No tool matches. Try other words.";
  return found.map(({ name, tool }) => `${name}: ${(tool.description ?? "").slice(0, maxShown)}`).join("\n");
}

/** By tools as their servers listed them: they are the same objects until they are listed anew. */
const known = new WeakMap<McpTool, Map<string, Indexed>>();

function indexOf({ server, tool }: CallableTool): Indexed {
  const ofServers = known.get(tool) ?? new Map<string, Indexed>();
  known.set(tool, ofServers);
  let index = ofServers.get(server);
  if (index === undefined) {
    index = indexed(server, tool);
    ofServers.set(server, index);
  }
  return index;
}

function indexed(server: string, { name, description = "", inputSchema }: McpTool): Indexed {
  const fields: Readonly<Record<Field, string>> = {
    name,
    server,
    purpose: description.slice(0, 300).split(/[.\n](?:\s|$)/, 1)[0]!,
    arguments: Object.keys(objectOf(inputSchema["properties"]) ?? {}).join(" "),
    description,
  };
  const index = new Map<string, number>();
  for (const field of Object.keys(fields) as Field[]) {
    const stems = stemsIn(fields[field]);
    // A long text has most words: one of them says less.
    const weight = weights[field] / (1 + stems.length / 100);
    for (const stem of stems) index.set(stem, Math.max(index.get(stem) ?? 0, weight));
  }
  return index;
}
