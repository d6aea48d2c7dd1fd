/** docs/moving-prompts.md from its first command to its last, against a process of its own and a provider that stands in for OpenAI. */
import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { completionOf } from "../helpers/chat-upstream.ts";
import { freePort } from "../helpers/free-port.ts";
import { follow, steady, stepsOf } from "../helpers/page-session.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";

test("an application moves by the page's steps alone, and each prints what the page says", async () => {
  const steps = stepsOf("docs/moving-prompts.md");
  using folder = new TempFolder();
  const answer = "Dear Jane, we will tune it.";
  const usage = { prompt_tokens: 30, completion_tokens: 8, total_tokens: 38 };
  using openai = new UpstreamServer(({ path }) =>
    jsonResponse(
      path.endsWith("/responses")
        ? {
            ...{ id: "resp_1", object: "response", created_at: 1, status: "completed", model: "gpt-5.4-mini" },
            output: [
              {
                ...{ type: "message", id: "msg_1", role: "assistant", status: "completed" },
                content: [{ type: "output_text", text: answer, annotations: [] }],
              },
            ],
            usage: { input_tokens: 30, output_tokens: 8, total_tokens: 38 },
          }
        : completionOf({ content: answer }, "stop", usage),
    ),
  );
  const port = freePort();
  writeFileSync(folder.file("troupe.yaml"), `providers: { openai: { base_url: "${openai.url}" } }\n`);
  const printed = await follow(steps, {
    cwd: folder.path,
    env: { TROUPE_PORT: String(port), HOME: folder.path },
    here: {
      // The server sees a new file a moment later: somebody who types takes longer.
      "unset OPENAI_BASE_URL\n":
        'until curl -s -H "Authorization: Bearer $OPENAI_API_KEY" $OPENAI_BASE_URL/models | grep -q support-eval; do :; done; unset OPENAI_BASE_URL\n',
      "127.0.0.1:8080": `127.0.0.1:${port}`,
    },
  });
  for (const [at, { name, output }] of steps.entries()) {
    expect(printed[at], `${name} ran`).toBeDefined();
    if (output !== undefined) expect(steady(printed[at]!)).toBe(steady(output));
  }
  const [call] = openai.requests;
  expect(JSON.stringify(call!.json)).toContain("Customer name: Jane Doe\\nIssue: The kettle whistles off key");
});
