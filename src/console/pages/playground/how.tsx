/** The same call from a program: by curl and by OpenAI's libraries, with the key in a variable. */
import { useState } from "preact/hooks";
import { Code } from "../../ui/code.tsx";
import { Copy, curlOf } from "../../ui/copy.tsx";
import { Select } from "../../ui/form.tsx";
import { Bar, Panel } from "../../ui/layout.tsx";
import type { Json } from "./call.ts";

/** Fields that OpenAI's libraries have no parameter for. */
const own = new Set(["variables", "thinking_budget", "include_thoughts"]);
const partOf = (body: Json, isOwn: boolean): Json =>
  Object.fromEntries(Object.entries(body).filter(([name]) => own.has(name) === isOwn));

/** @returns a literal of Python */
function python(value: unknown, indent = "    "): string {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value !== "object") return JSON.stringify(value);
  const deeper = `${indent}    `;
  const lines = Array.isArray(value)
    ? value.map((one) => python(one, deeper))
    : Object.entries(value).map(([name, one]) => `${JSON.stringify(name)}: ${python(one, deeper)}`);
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  return lines.length === 0
    ? `${open}${close}`
    : `${open}\n${lines.map((line) => `${deeper}${line},\n`).join("")}${indent}${close}`;
}

const inPython = (url: string, body: Json) => {
  const [plain, extra] = [partOf(body, false), partOf(body, true)];
  const parameters = Object.entries(plain).map(([name, value]) => `    ${name}=${python(value)},\n`);
  if (Object.keys(extra).length > 0) parameters.push(`    extra_body=${python(extra)},\n`);
  return `import os
from openai import OpenAI

client = OpenAI(base_url=${JSON.stringify(url)}, api_key=os.environ["TROUPE_KEY"])
answer = client.chat.completions.create(
${parameters.join("")})
print(answer.choices[0].message.content)
`;
};

const inTypeScript = (url: string, body: Json) => {
  const isTyped = Object.keys(partOf(body, true)).length === 0;
  const cast = isTyped ? "" : " as OpenAI.ChatCompletionCreateParamsNonStreaming";
  return `import OpenAI from "openai";

const client = new OpenAI({ baseURL: ${JSON.stringify(url)}, apiKey: process.env["TROUPE_KEY"] });
const answer = await client.chat.completions.create(${JSON.stringify(body, null, 2)}${cast});
console.log(answer.choices[0]?.message.content);
`;
};

const ways = {
  curl: (url: string, body: Json) => curlOf("POST", `${url}/chat/completions`, body),
  Python: inPython,
  TypeScript: inTypeScript,
} as const;

/** Pictures are too long for a command. */
const short = (body: Json): Json =>
  JSON.parse(
    JSON.stringify(body, (_, value) =>
      typeof value === "string" && value.startsWith("data:image/") ? "https://…/picture.png" : value,
    ),
  ) as Json;

export function How({ body, isPersona }: { readonly body: Json; readonly isPersona: boolean }) {
  const [way, setWay] = useState<keyof typeof ways>("curl");
  const url = new URL(isPersona ? "v1" : "gateway/v1", document.baseURI).href;
  const text = ways[way](url, short(body));
  return (
    <Panel title="How do I call it?" note={String(body["model"])}>
      <Bar>
        <Select
          aria-label="By"
          value={way}
          options={Object.keys(ways)}
          onChange={(chosen) => setWay(chosen as keyof typeof ways)}
        />
        <Copy text={text} />
      </Bar>
      <Code text={text} label="The call" />
      <p class="muted">
        The address is this page's, and <code>TROUPE_KEY</code> a key of <a href="#/keys">Keys and budgets</a> for{" "}
        {isPersona ? "the orchestrator" : "the gateway"}.
      </p>
    </Panel>
  );
}
