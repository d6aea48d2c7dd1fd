/** Set-up lines for clients, filled in with this server's address and a model; docs/clients.md has the same. */

type SetUp = { readonly client: string; readonly where?: string; readonly text: string };

/** @param root the address without `/v1`, as the clients of Anthropic and Google want it */
export function setUps(root: string, model: string): readonly SetUp[] {
  const base = `${root}/v1`;
  return [
    {
      client: "Claude Code",
      text: `export ANTHROPIC_BASE_URL=${root} ANTHROPIC_AUTH_TOKEN=$TROUPE_KEY\nclaude --model ${model}`,
    },
    {
      client: "Codex",
      where: "~/.codex/config.toml",
      text: `model_provider = "troupe"\nmodel = "${model}"\nweb_search = "disabled"\nmodel_providers.troupe = { name = "Troupe", base_url = "${base}", env_key = "TROUPE_KEY", wire_api = "responses" }`,
    },
    {
      client: "Gemini CLI",
      text: `export GOOGLE_GEMINI_BASE_URL=${root} GEMINI_API_KEY=$TROUPE_KEY\ngemini --model ${model}`,
    },
    {
      client: "opencode",
      where: "~/.config/opencode/opencode.json",
      text: JSON.stringify(
        {
          $schema: "https://opencode.ai/config.json",
          provider: {
            troupe: {
              npm: "@ai-sdk/openai-compatible",
              name: "Troupe",
              options: { baseURL: base, apiKey: "{env:TROUPE_KEY}" },
              models: { [model]: { name: model } },
            },
          },
        },
        null,
        2,
      ),
    },
    {
      client: "OpenAI SDK (Python)",
      text: `import os\nfrom openai import OpenAI\n\nclient = OpenAI(base_url="${base}", api_key=os.environ["TROUPE_KEY"])\nanswer = client.chat.completions.create(model="${model}", messages=[{"role": "user", "content": "Hello!"}])\nprint(answer.choices[0].message.content)`,
    },
    {
      client: "OpenAI SDK (TypeScript)",
      text: `import OpenAI from "openai";\n\nconst client = new OpenAI({ baseURL: "${base}", apiKey: process.env.TROUPE_KEY });\nconst answer = await client.chat.completions.create({\n  model: "${model}",\n  messages: [{ role: "user", content: "Hello!" }],\n});\nconsole.log(answer.choices[0].message.content);`,
    },
    {
      client: "Anthropic SDK (Python)",
      text: `import os\nfrom anthropic import Anthropic\n\nclient = Anthropic(base_url="${root}", api_key=os.environ["TROUPE_KEY"])\nanswer = client.messages.create(model="${model}", max_tokens=1000, messages=[{"role": "user", "content": "Hello!"}])\nprint(answer.content[-1].text)`,
    },
    {
      client: "Anthropic SDK (TypeScript)",
      text: `import Anthropic from "@anthropic-ai/sdk";\n\nconst client = new Anthropic({ baseURL: "${root}", apiKey: process.env.TROUPE_KEY });\nconst answer = await client.messages.create({\n  model: "${model}",\n  max_tokens: 1000,\n  messages: [{ role: "user", content: "Hello!" }],\n});\nconsole.log(answer.content.at(-1));`,
    },
    {
      client: "LangChain",
      text: `import os\nfrom langchain_openai import ChatOpenAI\n\nmodel = ChatOpenAI(model="${model}", base_url="${base}", api_key=os.environ["TROUPE_KEY"])\nprint(model.invoke("Hello!").content)`,
    },
    {
      client: "Open WebUI",
      where: "its environment",
      text: `OPENAI_API_BASE_URL=${base}\nOPENAI_API_KEY=<your key>`,
    },
    {
      client: "curl",
      text: `curl ${base}/chat/completions \\\n  -H "authorization: Bearer $TROUPE_KEY" -H "content-type: application/json" \\\n  -d '{"model": "${model}", "messages": [{"role": "user", "content": "Hello!"}]}'`,
    },
  ];
}
