/** The tool by which a model reads its persona's skills: texts of this process, so that nothing is asked and nothing is done. */
import type { CallableTool } from "../../../mcp/grants.ts";
import { readSkill, type Skills, skillTool } from "../../../personas/skills/schema.ts";
import { ApiError } from "../../../protocols/errors.ts";

/** What calls of it are noted by, where others have their server's name. */
const server = "skills";

/** @param taken names of the call's other tools @throws ApiError invalid_value where one of them is its own */
export function skillsTool(skills: Skills, taken: readonly string[]): CallableTool {
  const { function: definition } = skills.tool;
  if (taken.includes(skillTool))
    throw ApiError.invalidValue("tools", `tools: this persona has a tool '${skillTool}' already.`);
  return {
    ...{ name: skillTool, server, definition: skills.tool, isLocal: true },
    tool: {
      name: skillTool,
      description: definition.description ?? undefined,
      inputSchema: definition.parameters ?? {},
    },
    async call(args) {
      const { text, isError } = readSkill(skills, args);
      return { content: [{ type: "text", text }], isError };
    },
  };
}
