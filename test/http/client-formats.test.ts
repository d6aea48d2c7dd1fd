/** Whatever format a client speaks: the same conversation sends the same thing to every upstream. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  type Asked,
  asked,
  clientFormats,
  type FormatName,
  formatNames,
  pathOf,
  type Turn,
} from "../helpers/client-formats.ts";
import { exampleResponse } from "../helpers/fixtures.ts";
import { Troupe } from "../helpers/troupe.ts";
import { type RecordedRequest, UpstreamServer } from "../helpers/upstream-server.ts";

const persona = "troupe/tutor";
let upstream: UpstreamServer;
let troupe: Troupe;

/** An answer in the form that the upstream was asked in. */
function answer({ path }: RecordedRequest): Response {
  if (path.includes("/messages")) return exampleResponse("anthropic/text");
  if (path.includes(":generateContent")) return exampleResponse("google/plain");
  return exampleResponse(path.includes("/responses") ? "openai-responses/plain" : "openai/plain");
}

/** A family of upstreams, one of its models, and the client format that goes there untranslated. */
const families: readonly (readonly [string, string, FormatName | undefined])[] = [
  ["anthropic", "claude-sonnet-4-5", "messages"],
  ["anthropic", "claude-opus-5-5", "messages"],
  ["google", "gemini-2.5-flash", undefined],
  ["google", "gemini-3-flash-preview", undefined],
  ["openai", "gpt-4o", "responses"],
  ["xai", "grok-4.3", "responses"],
  ["groq", "some-model", undefined],
  ["deepseek", "deepseek-chat", undefined],
  ["mistral", "mistral-large", undefined],
  ["openrouter", "a/b", undefined],
];

beforeAll(async () => {
  upstream = new UpstreamServer(answer);
  const named = families.map(([name]) => [name, { baseUrl: upstream.url }]);
  troupe = await Troupe.start({ providers: Object.fromEntries(named) });
});
afterAll(async () => {
  await troupe[Symbol.asyncDispose]();
  upstream[Symbol.dispose]();
});

/** What a format has no place for: there the conversation is compared without it. */
const withoutPlace: readonly { formats: readonly FormatName[]; reason: string; leftOut: (said: Asked) => Asked }[] = [
  {
    formats: ["responses"],
    reason: "the format has no stop sequences",
    leftOut: (said) => ({ ...said, stop: [] }),
  },
  {
    formats: ["chat", "responses"],
    reason: "a tool's result is a text there: nothing says that the tool failed",
    leftOut: (said) => ({ ...said, turns: said.turns.map(withoutErrors) }),
  },
  {
    formats: ["messages"],
    reason: "one call at a time is part of a choice that allows calls",
    leftOut: (said) => ({ ...said, oneAtATime: said.oneAtATime && said.choice !== "none" }),
  },
];

function withoutErrors(turn: Turn): Turn {
  if (turn.kind === "user") return turn;
  return { ...turn, calls: turn.calls.map((call) => ({ ...call, result: { ...call.result, isError: false } })) };
}

/** As far as all of these formats have a place for it. */
function common(said: Asked, formats: readonly FormatName[]): Asked {
  const missing = withoutPlace.filter((one) => one.formats.some((format) => formats.includes(format)));
  return missing.reduce((rest, { leftOut }) => leftOut(rest), said);
}

type Body = Record<string, unknown>;

/** What reaches the upstream; of what its API does not take, the error. */
async function sent(path: string, body: Body): Promise<[string, Body]> {
  const got = await troupe.post(path, body);
  const text = await got.text();
  if (got.status !== 200) return [`${got.status} ${/not taken here/.exec(text)?.[0] ?? text}`, {}];
  // Said in Responses alone, whose answers are kept unless the caller says otherwise.
  const { store: _, ...said } = upstream.last.json as Body;
  return [upstream.last.path, said];
}

const bodyOf = (format: FormatName, said: Asked): Body => ({ ...clientFormats[format].body(said) });

describe.each(families)("%s/%s", (provider, name, native) => {
  const translated = formatNames.filter((format) => format !== "chat" && format !== native);

  test("gateway: the same goes up, and untranslated where the upstream speaks the format", async () => {
    const model = `${provider}/${name}`;
    await fc.assert(
      fc.asyncProperty(asked, async (said) => {
        for (const format of translated) {
          const told = common(said, ["chat", format]);
          const byChat = await sent(pathOf("gateway", "chat"), { ...bodyOf("chat", told), model });
          const byFormat = await sent(pathOf("gateway", format), { ...bodyOf(format, told), model });
          expect([format, ...byFormat]).toEqual([format, ...byChat]);
        }
        if (native === undefined) return;
        const { store: _, ...own } = bodyOf(native, said);
        const [, json] = await sent(pathOf("gateway", native), { ...own, store: false, model });
        expect(json).toEqual({ ...own, model: name });
      }),
      { numRuns: 15 },
    );
  }, 20_000);

  test("orchestrator: the same goes up behind the persona's words", async () => {
    troupe.setTargets(persona, [`${provider}/${name}`]);
    await fc.assert(
      fc.asyncProperty(asked, async (said) => {
        for (const format of formatNames.slice(1)) {
          const told = common(said, ["chat", format]);
          const byFormat = await sent(pathOf("orchestrator", format), { ...bodyOf(format, told), model: persona });
          // Its own API carries OpenAI's thoughts from one turn to the next: chat asks for it by a field.
          const isWithin = format === "responses" && native === "responses";
          const more = isWithin ? { use_responses_api: true } : {};
          const byChat = await sent(pathOf("orchestrator", "chat"), {
            ...bodyOf("chat", told),
            ...more,
            model: persona,
          });
          if (format === native && !isWithin) expectBehind(byFormat[1], byChat[1], bodyOf(format, told));
          else expect([format, ...byFormat]).toEqual([format, ...byChat]);
        }
      }),
      { numRuns: 15 },
    );
  }, 20_000);
});

/** An untranslated call: the caller's turns as they came, and the system text that the translated one has. */
function expectBehind(json: Body, translated: Body, own: Body): void {
  const turns = (body: Body) => body["messages"] as unknown[];
  expect(turns(json).slice(-turns(own).length)).toEqual(turns(own));
  const textOf = (system: unknown) =>
    typeof system === "string" ? system : (system as { text: string }[]).map(({ text }) => text).join("\n\n");
  expect(textOf(json["system"])).toBe(textOf(translated["system"]));
}
