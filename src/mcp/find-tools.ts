/** `find_tools`: a search over the names and descriptions of tools, for calls with more of them than a model should be given at once. */
import type { FunctionTool } from "../protocols/chat/schema.ts";
import type { GrantedTool } from "./grants.ts";

const maxFound = 10;
/** So much of a description is shown. */
const maxShown = 200;

/** @param name `find_tools`, or another where that is taken */
export function findToolsDefinition(name: string, tools: number): FunctionTool {
  return {
    type: "function",
    function: {
      name,
      description: `Searches ${tools} further tools by words of their names and descriptions. The tools that it finds can be called from then on.`,
      parameters: {
        type: "object",
        properties: { query: { type: "string", description: "A few words that say what the tool should do." } },
        required: ["query"],
      },
    },
  };
}

/** @returns the best matches, the best first */
export function findTools(tools: readonly GrantedTool[], query: string): GrantedTool[] {
  const words = wordsIn(query);
  const scored = tools.flatMap((tool) => {
    const names = wordsIn(`${tool.name} ${tool.tool.name}`);
    const described = wordsIn(tool.tool.description ?? "");
    let score = 0;
    for (const word of words) {
      if (names.some((one) => one.includes(word))) score += 3;
      if (described.includes(word)) score += 1;
    }
    return score === 0 ? [] : [{ tool, score }];
  });
  // Sorting is stable: equals stay in the order of the persona's list.
  return scored
    .toSorted((a, b) => b.score - a.score)
    .slice(0, maxFound)
    .map(({ tool }) => tool);
}

export function foundText(found: readonly GrantedTool[]): string {
  if (found.length === 0) return "No tool matches. Try other words.";
  return found.map(({ name, tool }) => `${name}: ${(tool.description ?? "").slice(0, maxShown)}`).join("\n");
}

const wordsIn = (text: string): string[] => [
  ...new Set(
    text
      .replaceAll(/([a-z])([A-Z])/g, "$1 $2")
      .toLowerCase()
      .split(/[^\p{L}\p{N}]+/u)
      .filter((word) => word !== ""),
  ),
];
