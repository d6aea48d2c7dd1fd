/**
 * A persona as a provider of promptfoo: a configuration that asks a running server, to be filled with tests. Source:
 * https://www.promptfoo.dev/docs/providers/openai/
 */
import type { JsonObject } from "../../../lib/json/json.ts";
import { writeYaml } from "../../file/persona-yaml.ts";
import type { Exporter } from "./exporter.ts";

export const promptfooExporter: Exporter = {
  format: "promptfoo",
  title: "promptfoo configuration, with the persona as its provider",
  extension: ".yaml",
  write({ id, content }) {
    const variables = Object.fromEntries(
      Object.entries(content.variables ?? {}).map(([name, { default: fallback, enum: allowed }]) => [
        name,
        fallback ?? allowed?.[0] ?? `<${name}>`,
      ]),
    );
    const first = content.examples?.find(({ role }) => role === "user");
    const question = typeof first?.content === "string" ? first.content : "Who are you, and what can you do for me?";
    const value: JsonObject = {
      description: content.description,
      prompts: ["{{question}}"],
      providers: [
        {
          id: `openai:chat:${id}`,
          label: id,
          config: { apiBaseUrl: "http://127.0.0.1:8080/v1", apiKeyEnvar: "TROUPE_KEY" },
        },
      ],
      ...(Object.keys(variables).length > 0 && { defaultTest: { options: { passthrough: { variables } } } }),
      tests: [
        {
          description: "answers",
          vars: { question: question.replaceAll("{{", "{ {") },
          assert: [{ type: "latency", threshold: 60_000 }],
        },
      ],
    };
    return {
      content: `# yaml-language-server: $schema=https://promptfoo.dev/config-schema.json\n${writeYaml(value)}`,
      omitted: [],
    };
  },
};
