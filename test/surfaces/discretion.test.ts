import { expect, test } from "bun:test";
import { silentLogger } from "../../src/lib/log.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";

test("what an upstream says of the input stays out of the log; what it says of our set-up does not", async () => {
  const lines: string[] = [];
  const hear = (message: string, fields?: unknown) => void lines.push(`${message} ${JSON.stringify(fields)}`);
  let status = 400;
  using upstream = new UpstreamServer(() =>
    jsonResponse({ error: { message: "cannot read 'my diary'", type: "invalid_request_error", code: "bad" } }, status),
  );
  await using troupe = await Troupe.start({
    providers: { openai: { baseUrl: upstream.url } },
    log: { ...silentLogger, info: hear, warn: hear, error: hear },
  });
  const call = () =>
    troupe.post("/gateway/v1/chat/completions", {
      model: "openai/x",
      messages: [{ role: "user", content: "my diary" }],
    });
  await (await call()).text();
  expect(lines.join("\n")).toContain('"upstream_error":"invalid_request_error bad"');
  expect(lines.join("\n")).not.toContain("diary");
  status = 404;
  await (await call()).text();
  expect(lines.join("\n")).toContain('"upstream_message":"cannot read');
});
