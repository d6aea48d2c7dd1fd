import { expect, test } from "bun:test";
import { ClientNames, clientLabel, labelsOf, noLabels } from "../../../src/usage/ledger/labels.ts";
import { ManualClock } from "../../helpers/manual-clock.ts";

test.each([
  ["OpenAI/Python 2.3.1", "OpenAI/Python"],
  ["Anthropic/JS 0.60.0", "Anthropic/JS"],
  ["claude-cli/2.1.0 (external, cli)", "claude-cli"],
  ["ai-sdk/openai/3.0.1 ai-sdk/provider-utils/4.0.0 runtime/bun/1.4.5", "ai-sdk/openai"],
  ["codex_cli_rs/0.42.0 (Debian 12; x86_64)", "codex_cli_rs"],
  ["Mozilla/5.0 (X11; Linux x86_64)", "Mozilla"],
  ["curl/8.5.0", "curl"],
  ["troupe", "troupe"],
  ["  <script>alert(1)</script>", "scriptalert"],
  [`${"x".repeat(500)}/1`, `${"x".repeat(39)}…`],
  ["", null],
  [null, null],
])("%p is called %p", (userAgent, name) => {
  expect(new ClientNames(new ManualClock(0)).labelsOf(userAgent).client).toBe(name);
});

test("of many names the first have a row of their own, until the day ends", () => {
  const clock = new ManualClock();
  const names = new ClientNames(clock);
  const found = (from: number) =>
    new Set(
      Array.from({ length: 2_000 }, (_, at) => names.labelsOf(`a${from + at}/1.0 ${"y".repeat(at % 900)}`).client),
    );
  expect(found(0).size).toBe(201);
  expect(found(5_000)).toEqual(new Set(["other"]));
  expect(names.labelsOf("a7/2.0").client).toBe("a7");
  clock.advance(86_400_000);
  expect(names.labelsOf("a6000/1.0").client).toBe("a6000");
});

test("labels are the chosen ones, short and printable", () => {
  const metadata = { team: "red\u0000\ud800", area: "", cost: 3, secret: "s", __proto__: "p" };
  expect(
    labelsOf(clientLabel("curl"), { user: "u".repeat(100), metadata }, [
      "__proto__",
      "area",
      "cost",
      "team",
      "toString",
    ]),
  ).toEqual({
    client: "curl",
    user: `${"u".repeat(63)}…`,
    metadata: '{"team":"red\ufffd\ufffd"}',
  });
  expect(labelsOf(noLabels, { user: 5, metadata: "x" }, ["team"])).toEqual({
    client: null,
    user: null,
    metadata: null,
  });
});
