/** What the model does in the tests of agents: it reads two files by the client's own shell, in one turn, and repeats them. */
import type { AgentRequest, AgentTool, Turn } from "../helpers/upstreams/agent.ts";

/** The files in the client's working folder. */
export const files = { "one.txt": "cobalt-4711", "two.txt": "amber-0815" };
export const prompt = "Read one.txt and two.txt, and tell me what stands there.";
/** What the client shows at the end. */
export const final = `They say ${files["one.txt"]} and ${files["two.txt"]}.`;

/** What each agent's shell calls its command. */
const commandNames = ["command", "cmd"];

export function readingFiles({ tools, results }: AgentRequest): Turn {
  const shell = tools.find((tool) => tool.name === codeTool || commandOf(tool) !== undefined);
  // Agents ask for titles and the like too, without tools.
  if (shell === undefined) return { text: "Two files" };
  const said = results.map(({ text }) => text).join(" ");
  if (Object.values(files).every((text) => said.includes(text))) return { text: final };
  if (results.length > 0) return { text: `The tools said: ${said}` };
  return {
    calls: Object.keys(files).map((file, at) => ({
      id: `toolu_w${at + 1}`,
      name: shell.name,
      args: argumentsFor(shell, `cat ${file}`),
    })),
  };
}

/** Newer models of Codex get one tool for JavaScript, in which the shell is a function. */
const codeTool = "functions__exec";

const propertiesOf = ({ parameters }: AgentTool) => (parameters["properties"] ?? {}) as Record<string, unknown>;
const commandOf = (tool: AgentTool) => commandNames.find((name) => name in propertiesOf(tool));

/** @returns the command, and a text for whatever else the tool demands */
function argumentsFor(tool: AgentTool, command: string): Record<string, unknown> {
  if (tool.name === codeTool) return { input: `text(await tools.exec_command({ cmd: ${JSON.stringify(command)} }));` };
  const required = (tool.parameters["required"] ?? []) as string[];
  const others = required.map((name) => [name, "Reads a file"]);
  return { ...Object.fromEntries(others), [commandOf(tool)!]: command };
}
