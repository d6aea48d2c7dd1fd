/** Whatever format a client speaks: the same conversation sends the same thing to every upstream. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  type Asked,
  asked,
  bodyFor,
  type FormatName,
  formatNames,
  pathOf,
  type Turn,
} from "../helpers/client-formats.ts";
import { exampleResponse } from "../helpers/fixtures.ts";
import { runs } from "../helpers/long-form.ts";
import { untilEnd } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";
import { type RecordedRequest, UpstreamServer } from "../helpers/upstream-server.ts";

const persona = "troupe/tutor";

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
  ["google", "gemini-2.5-flash", "generate-content"],
  ["google", "gemini-3-flash-preview", "generate-content"],
  ["openai", "gpt-4o", "responses"],
  ["xai", "grok-4.3", "responses"],
  ["groq", "some-model", undefined],
  ["deepseek", "deepseek-chat", undefined],
  ["mistral", "mistral-large", undefined],
  ["openrouter", "a/b", undefined],
];

const upstream = untilEnd(new UpstreamServer(answer));
const named = families.map(([name]) => [name, { baseUrl: upstream.url }]);
const troupe = untilEnd(await Troupe.start({ providers: Object.fromEntries(named) }));

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
    formats: ["generate-content"],
    reason: "the format can't ask for one call at a time",
    leftOut: (said) => ({ ...said, oneAtATime: false }),
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

describe.each(families)("%s/%s", (provider, name, native) => {
  const translated = formatNames.filter((format) => format !== "chat" && format !== native);

  test("gateway: the same goes up, and untranslated where the upstream speaks the format", async () => {
    const model = `${provider}/${name}`;
    await fc.assert(
      fc.asyncProperty(asked, async (said) => {
        for (const format of translated) {
          const told = common(said, ["chat", format]);
          const byChat = await sent(pathOf("gateway", "chat", model), bodyFor("chat", told, model));
          const byFormat = await sent(pathOf("gateway", format, model), bodyFor(format, told, model));
          expect([format, ...byFormat]).toEqual([format, ...byChat]);
        }
        if (native === undefined) return;
        const { store: _, ...own } = bodyFor(native, said, model);
        const more = native === "responses" ? { store: false } : {};
        const [, json] = await sent(pathOf("gateway", native, model), { ...own, ...more });
        expect(json).toEqual("model" in own ? { ...own, model: name } : own);
      }),
      { numRuns: runs(15) },
    );
  });

  test("orchestrator: the same goes up behind the persona's words", async () => {
    troupe.setTargets(persona, [`${provider}/${name}`]);
    await fc.assert(
      fc.asyncProperty(asked, async (said) => {
        for (const format of formatNames.slice(1)) {
          const told = common(said, ["chat", format]);
          // Its own API carries OpenAI's thoughts from one turn to the next: chat asks for it by a field. What is kept is translated.
          const isWithin = format === "responses" && native === "responses";
          const own = { ...bodyFor(format, told, persona), ...(isWithin && { store: true }) };
          const byFormat = await sent(pathOf("orchestrator", format, persona), own);
          const more = isWithin ? { use_responses_api: true } : {};
          const byChat = await sent(pathOf("orchestrator", "chat", persona), {
            ...bodyFor("chat", told, persona),
            ...more,
          });
          if (format === native && !isWithin) expectBehind(byFormat[1], byChat[1], bodyFor(format, told, persona));
          else expect([format, ...byFormat]).toEqual([format, ...byChat]);
        }
      }),
      { numRuns: runs(15) },
    );
  });
});

/** An untranslated call: the caller's turns as they came, and the system text that the translated one has. */
function expectBehind(json: Body, translated: Body, own: Body): void {
  const turns = (body: Body) => (body["messages"] ?? body["contents"]) as unknown[];
  expect(turns(json).slice(-turns(own).length)).toEqual(turns(own));
  const textOf = (system: unknown) =>
    typeof system === "string" ? system : (system as { text: string }[]).map(({ text }) => text).join("\n\n");
  const systemOf = ({ system, systemInstruction }: Body) =>
    textOf(system ?? (systemInstruction as { parts: unknown }).parts);
  // What is asked for in words where a model has no field for it is left to the caller here.
  expect(systemOf(translated)).toStartWith(systemOf(json));
}
