import { describe, expect, test } from "bun:test";
import { completionOf } from "../../helpers/chat-upstream.ts";
import { jsonResponse, type RecordedRequest } from "../../helpers/upstream-server.ts";
import { answer, type Body, recorded, testFile, Workplace } from "./workplace.ts";

const words = `prompts: hello
tests:
  - {description: greets, assert: [{type: contains, value: "HELLO"}]}
  - {description: is new, assert: [{type: not-contains, value: "gpt-5.4-mini"}]}
`;
const three = "openai/gpt-5.4-mini,openai/gpt-5.5,openai/gpt-5.4";
const still = (text: string) => text.replaceAll(/\d+ ms/g, "9 ms").replaceAll(/ {2,}/g, "  ");

type Json = { sides: { side: string; passes: boolean; answers_cost: number; prompt_tokens: number }[] };

describe("personas test --models", () => {
  test("shows which would do: the cheapest of those that pass first", async () => {
    using place = new Workplace({ [testFile]: words });
    const { code, out, err } = await place.shell.run(`personas test --models ${three}`);
    expect(still(out)).toBe(
      [
        "  VERDICT  COST  P50  P95  TOKENS IN  OUT",
        "all tests",
        "  openai/gpt-5.4  2 of 2  $0.0080  9 ms  9 ms  2000  200",
        "  openai/gpt-5.5  2 of 2  $0.016  9 ms  9 ms  2000  200",
        "  openai/gpt-5.4-mini  1 of 2  $0.0024  9 ms  9 ms  2000  200",
        "acme/support: greets",
        "  openai/gpt-5.4  pass  $0.0040  9 ms  9 ms  1000  100",
        "  openai/gpt-5.5  pass  $0.0080  9 ms  9 ms  1000  100",
        "  openai/gpt-5.4-mini  pass  $0.0012  9 ms  9 ms  1000  100",
        "acme/support: is new",
        "  openai/gpt-5.4  pass  $0.0040  9 ms  9 ms  1000  100",
        "  openai/gpt-5.5  pass  $0.0080  9 ms  9 ms  1000  100",
        "  openai/gpt-5.4-mini  FAIL  $0.0012  9 ms  9 ms  1000  100",
        "Not passed:",
        '  fail  openai/gpt-5.4-mini: acme/support: is new: not-contains: is what not-contains "gpt-5.4-mini" forbids',
        "openai/gpt-5.4 passes all, for $0.0080.",
        "",
      ].join("\n"),
    );
    expect(code).toBe(1);
    expect(err).toStartWith("6 calls, $");
    expect((await place.shell.run("personas test --models openai/gpt-5.5,openai/gpt-5.4")).code).toBe(0);
  });

  test("answers from one recording of each model, beside the persona's own", async () => {
    using place = new Workplace({ [testFile]: words });
    await place.shell.run("personas test --record");
    const own = place.read(recorded);
    const { err } = await place.shell.run(`personas test --models ${three} --record`);
    expect(err).toContain("Recorded 8 tests in ");
    expect(place.read(recorded)).toContain(
      "  - test: greets\n    model: openai/gpt-5.5\n    request:\n      models:\n        - openai/gpt-5.5\n",
    );
    place.upstream[Symbol.dispose]();
    place.write("troupe.yaml", "providers: {openai: {api_key: '${NO_KEY}'}}\n");
    const line = `personas test --models ${three} --replay`;
    const { code, out } = await place.shell.run(`${line} --json`);
    expect(code).toBe(1);
    expect(
      (JSON.parse(out) as Json).sides.map(({ side, passes, answers_cost }) => [side, passes, answers_cost]),
    ).toEqual([
      ["openai/gpt-5.4", true, 0.008],
      ["openai/gpt-5.5", true, 0.016],
      ["openai/gpt-5.4-mini", false, 0.0024],
    ]);
    expect((await place.shell.run("personas test --replay")).code).toBe(0);
    // What the persona's own models answered stays, and its other fields with it.
    for (const part of own.split("  - test: ").slice(1)) expect(place.read(recorded)).toContain(part);
    place.write(testFile, words.replace("hello", "good day"));
    const stale = await place.shell.run(`${line} --filter greets`);
    expect(stale.code).toBe(2);
    expect(stale.out).toContain(
      'the request has changed since it was recorded: messages[1].content: "hello" → "good day"',
    );
  });

  test("says which model has no recording, and how one is made", async () => {
    using place = new Workplace({ [testFile]: words });
    const { code, out } = await place.shell.run(
      "personas test --models openai/gpt-5.5,other/x --replay --filter greets",
    );
    expect(code).toBe(2);
    expect(out).toContain("  other/x             ERROR            -     -    -    -          -\n");
    expect(out).toContain(
      "there is no recording of this test by other/x; 'troupe personas test --models other/x --record' makes one\n",
    );
    expect(out).toEndWith("None of them passes all.\n");
  });

  test("names a model without a price, and one that the provider does not know", async () => {
    const handler = (request: RecordedRequest) =>
      (request.json as Body).model === "gone"
        ? jsonResponse({ error: { message: "no such model" } }, 404)
        : answer(request);
    using place = new Workplace({ [testFile]: words }, handler);
    const line = "personas test --models openai/house-model,openai/gone,openai/gpt-5.4";
    const { code, out, err } = await place.shell.run(line);
    expect(code).toBe(2);
    expect(err).toEndWith("error: openai answered 404: its key, address or model name is wrong\n");
    const [, , ...rows] = still(out).split("\n");
    expect(rows.slice(0, 3)).toEqual([
      "  openai/gpt-5.4  2 of 2  $0.0080  9 ms  9 ms  2000  200",
      "  openai/house-model  2 of 2  unknown  9 ms  9 ms  2000  200",
      "  openai/gone  0 of 2, 2 errors  -  -  -  -  -",
    ]);
    expect(out).toContain("No price is known of openai/house-model.\n");
    expect(out).toContain("  error  openai/gone: acme/support: greets: 500: ");
  });

  test("counts the nearest rank of many answers", async () => {
    using place = new Workplace({ [testFile]: words }, () => jsonResponse(completionOf({ content: "HELLO" })));
    const line = "personas test --models openai/gpt-5.4 --filter greets --repeat 3";
    const { out } = await place.shell.run(line);
    expect(still(out)).toContain("  openai/gpt-5.4  pass (3 of 3)  ");
  });

  test("refuses what is no list of models", async () => {
    using place = new Workplace({ [testFile]: words });
    const refused = async (line: string) => {
      const { code, err } = await place.shell.run(`personas test --models ${line}`);
      expect(code).toBe(2);
      return err.split("\n")[0];
    };
    expect(await refused("openai/a,b")).toBe(
      "error: --models takes <provider>/<model>, with commas between: 'b' is none.",
    );
    expect(await refused("openai/a,")).toBe(
      "error: --models takes <provider>/<model>, with commas between: '' is none.",
    );
    expect(await refused("openai/a,openai/a")).toBe("error: --models names openai/a twice.");
    expect(await refused("openai/a,oops/b")).toBe("error: --models: no provider is set up for 'oops/b'.");
    expect(await refused("openai/a --model openai/b")).toBe(
      "error: --models is for models beside each other, by the program itself: leave --model out.",
    );
    const many = Array.from({ length: 13 }, (_, at) => `openai/m${at}`).join(",");
    expect(await refused(many)).toBe("error: --models takes 12 models at most.");
    expect(place.upstream.requests).toHaveLength(0);
  });
});
