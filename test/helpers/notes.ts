/** A format of nobody's, and an upstream that speaks it: for what holds for every client format and every native route. */
import { isObject, type JsonObject, parseJson } from "../../src/lib/json/json.ts";
import { formatSseEvent, sseFraming } from "../../src/lib/streams/sse.ts";
import { ApiError, InvalidAnswer, UpstreamFault } from "../../src/protocols/errors.ts";
import type { NativeChange, Protocol } from "../../src/protocols/protocol.ts";
import type { NativeRoute } from "../../src/providers/provider.ts";

export const event = (name: string, value: object) => formatSseEvent(JSON.stringify(value), name);

/** What `patch` was asked for, the latest last. */
export const patches: NativeChange[] = [];

/** `{"model": name, "ask": text, "live": stream, "keep": store}`, and "tune", which nobody else has. */
export const notes: Protocol<{ readonly live: boolean }> = {
  name: "notes",
  answerIdPrefix: "note_",
  keepAlive: event("wait", {}),
  passedRequestHeaders: ["notes-beta"],
  parse({ parsed }) {
    const { model, ask, live, keep } = parsed;
    if (typeof model !== "string") throw ApiError.missingField("model");
    if (typeof ask !== "string") throw ApiError.invalidValue("ask", "ask must be a string.");
    const request = {
      model,
      messages: [{ role: "user" as const, content: ask }],
      stream: live === true,
      ...(keep === true && { store: true }),
    };
    const nativeOnly = parsed["tune"] === undefined ? undefined : ApiError.unsupported("tune", "No tunes there.");
    return { request, identity: ["notes", parsed], options: { live: live === true }, nativeOnly };
  },
  completion: ({ choices }, { id, model }) => ({ id, by: model, note: choices[0]!.message.content }),
  encoder: ({ id }) => {
    let begun = false;
    return {
      push({ choices }, events) {
        if (!begun) events.push(event("begin", { id }));
        begun = true;
        const text = choices[0]?.delta.content;
        if (text) events.push(event("word", { text }));
      },
      end: (events) => void events.push(event("close", {})),
      fault: (error, events) => void events.push(event("wrong", { told: error["message"] })),
    };
  },
  error: (error) => ({ wrong: error.message, at: error.param }),
  upstreamError: ({ message }, status) => ({ wrong: message, status }),
  native: {
    patch(body, change) {
      patches.push(change);
      if (change.fields["response_format"] !== undefined) return undefined;
      const [system] = change.before;
      const spelt = { ...body, model: change.model };
      return system === undefined ? spelt : { ...spelt, ask: `${system.content} ${body["ask"]}` };
    },
    encoder: () => ({
      fault: (error, last, events) =>
        void events.push(event("wrong", { told: error["message"], after: last?.event ?? null })),
    }),
  },
};

const choice = (content: string, finish_reason: "stop" | null) => ({ index: 0, delta: { content }, finish_reason });

/** An upstream's side of the format. */
export const notesRoute: NativeRoute = {
  encode: (body, { account }, headers) => ({ url: `${account.baseUrl}/notes`, headers, body }),
  decode(body, text) {
    const { wrong, note, words } = body as JsonObject;
    if (wrong !== undefined) throw new UpstreamFault(text, 429);
    if (typeof note !== "string") throw new InvalidAnswer("no note");
    return {
      choices: [{ index: 0, message: { role: "assistant", content: note }, finish_reason: "stop" }],
      usage: usageOf(words),
    };
  },
  streamDecoder() {
    let finished = false;
    let id: string | undefined;
    return {
      framing: sseFraming,
      push({ event: name, data }) {
        const body = parseJson(data);
        if (!isObject(body)) throw new InvalidAnswer("an event that is no JSON");
        if (name === "wrong") throw new UpstreamFault(data, 429);
        if (name === "begin") id = String(body["id"]);
        if (name === "word") return [{ choices: [choice(String(body["text"]), null)] }];
        if (name !== "close") return [];
        finished = true;
        return [{ choices: [{ ...choice("", "stop"), delta: {} }], usage: usageOf(body["words"]) }];
      },
      end: () => [],
      get finished() {
        return finished;
      },
      get upstreamResponseId() {
        return id;
      },
    };
  },
  upstreamResponseId: (body) => String((body as JsonObject)["id"]),
};

function usageOf(words: unknown) {
  const count = Number(words ?? 0);
  return { prompt_tokens: 1, completion_tokens: count, total_tokens: count + 1 };
}
