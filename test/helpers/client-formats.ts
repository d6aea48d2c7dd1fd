/** One conversation as clients of each format write it: what is said is the same, in each format's own words. */
import fc from "fast-check";
import type { SurfaceName } from "../../src/config/config.ts";

export type Part =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "image"; readonly data: string }
  | { readonly kind: "file"; readonly name: string; readonly data: string };

export type ToolResult = { readonly parts: readonly Part[]; readonly isError: boolean };
export type ToolUse = {
  readonly id: string;
  readonly name: string;
  readonly args: object;
  readonly result: ToolResult;
};

export type Turn =
  | { readonly kind: "user"; readonly parts: readonly Part[] }
  | { readonly kind: "assistant"; readonly text: string; readonly calls: readonly ToolUse[] };

export type Tool = { readonly name: string; readonly description: string; readonly parameters: object };

export type Asked = {
  readonly system: string;
  readonly turns: readonly Turn[];
  readonly tools: readonly Tool[];
  /** Another word is the name of a tool. */
  readonly choice: "auto" | "none" | "required" | string;
  readonly oneAtATime: boolean;
  readonly schema: object | undefined;
  readonly temperature: number | undefined;
  /** Messages can't be without it. */
  readonly maxTokens: number | undefined;
  readonly stop: readonly string[];
};

/** Base64 of a picture's first bytes. */
const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ";
const pdf = "JVBERi0xLjQKJcOkw7zDtsOfCjIgMCBvYmoK";

const dataUrl = (type: string, data: string) => `data:${type};base64,${data}`;

export const chatFormat = {
  path: "/chat/completions",
  body(asked: Asked): object {
    const { tools, schema } = asked;
    return {
      messages: [
        ...(asked.system === "" ? [] : [{ role: "system", content: asked.system }]),
        ...asked.turns.flatMap(chatTurn),
      ],
      ...(tools.length > 0 && {
        tools: tools.map((tool) => ({ type: "function", function: tool })),
        tool_choice: word(asked.choice) ?? { type: "function", function: { name: asked.choice } },
        ...(asked.oneAtATime && { parallel_tool_calls: false }),
      }),
      ...(schema && {
        response_format: { type: "json_schema", json_schema: { name: "answer", schema, strict: true } },
      }),
      ...(asked.temperature !== undefined && { temperature: asked.temperature }),
      ...(asked.maxTokens !== undefined && { max_completion_tokens: asked.maxTokens }),
      ...(asked.stop.length > 0 && { stop: asked.stop }),
    };
  },
};

const word = (choice: string) => (["auto", "none", "required"].includes(choice) ? choice : undefined);

function chatTurn(turn: Turn): object[] {
  if (turn.kind === "user") return [{ role: "user", content: chatParts(turn.parts) }];
  const tool_calls = turn.calls.map(({ id, name, args }) => ({
    id,
    type: "function",
    function: { name, arguments: JSON.stringify(args) },
  }));
  return [
    { role: "assistant", content: turn.text === "" ? null : turn.text, ...(tool_calls.length > 0 && { tool_calls }) },
    ...turn.calls.map(({ id, result }) => ({ role: "tool", tool_call_id: id, content: chatParts(result.parts) })),
  ];
}

/** One text is a string, as clients write it. */
function chatParts(parts: readonly Part[]): unknown {
  const [only] = parts;
  if (parts.length === 1 && only?.kind === "text") return only.text;
  return parts.map((part) => {
    if (part.kind === "text") return { type: "text", text: part.text };
    if (part.kind === "image") return { type: "image_url", image_url: { url: dataUrl("image/png", part.data) } };
    return { type: "file", file: { filename: part.name, file_data: dataUrl("application/pdf", part.data) } };
  });
}

export const responsesFormat = {
  path: "/responses",
  body(asked: Asked): object {
    const { tools, schema } = asked;
    return {
      ...(asked.system !== "" && { instructions: asked.system }),
      input: asked.turns.flatMap(responsesItems),
      ...(tools.length > 0 && {
        tools: tools.map((tool) => ({ type: "function", ...tool })),
        tool_choice: word(asked.choice) ?? { type: "function", name: asked.choice },
        ...(asked.oneAtATime && { parallel_tool_calls: false }),
      }),
      ...(schema && { text: { format: { type: "json_schema", name: "answer", schema, strict: true } } }),
      ...(asked.temperature !== undefined && { temperature: asked.temperature }),
      ...(asked.maxTokens !== undefined && { max_output_tokens: asked.maxTokens }),
      store: false,
    };
  },
};

function responsesItems(turn: Turn): object[] {
  if (turn.kind === "user") return [{ role: "user", content: inputParts(turn.parts) }];
  const said = turn.text === "" ? [] : [{ type: "output_text", text: turn.text, annotations: [] }];
  return [
    ...(said.length === 0 ? [] : [{ type: "message", role: "assistant", status: "completed", content: said }]),
    ...turn.calls.map(({ id, name, args }) => ({
      type: "function_call",
      call_id: id,
      name,
      arguments: JSON.stringify(args),
      status: "completed",
    })),
    ...turn.calls.map(({ id, result }) => ({
      type: "function_call_output",
      call_id: id,
      output: inputParts(result.parts),
    })),
  ];
}

function inputParts(parts: readonly Part[]): unknown {
  const [only] = parts;
  if (parts.length === 1 && only?.kind === "text") return only.text;
  return parts.map((part) => {
    if (part.kind === "text") return { type: "input_text", text: part.text };
    if (part.kind === "image") return { type: "input_image", image_url: dataUrl("image/png", part.data) };
    return { type: "input_file", filename: part.name, file_data: dataUrl("application/pdf", part.data) };
  });
}

export const messagesFormat = {
  path: "/messages",
  body(asked: Asked): object {
    const { tools, schema } = asked;
    return {
      ...(asked.system !== "" && { system: asked.system }),
      messages: asked.turns.flatMap(messagesTurns).reduce(joinUsers, []),
      ...(tools.length > 0 && {
        tools: tools.map(({ parameters, ...tool }) => ({ ...tool, input_schema: parameters })),
        tool_choice: messagesChoice(asked),
      }),
      ...(schema && { output_config: { format: { type: "json_schema", schema } } }),
      ...(asked.temperature !== undefined && { temperature: asked.temperature }),
      max_tokens: asked.maxTokens,
      ...(asked.stop.length > 0 && { stop_sequences: asked.stop }),
    };
  },
};

function messagesChoice({ choice, oneAtATime }: Asked): object {
  const type = { auto: "auto", none: "none", required: "any" }[choice];
  const chosen = type === undefined ? { type: "tool", name: choice } : { type };
  return oneAtATime && choice !== "none" ? { ...chosen, disable_parallel_tool_use: true } : chosen;
}

type MessagesTurn = { role: string; content: unknown };

function messagesTurns(turn: Turn): MessagesTurn[] {
  if (turn.kind === "user") return [{ role: "user", content: blocks(turn.parts) }];
  const said = turn.text === "" ? [] : [{ type: "text", text: turn.text }];
  const uses = turn.calls.map(({ id, name, args }) => ({ type: "tool_use", id, name, input: args }));
  const results = turn.calls.map(({ id, result }) => ({
    type: "tool_result",
    tool_use_id: id,
    content: blocks(result.parts),
    ...(result.isError && { is_error: true }),
  }));
  return [
    { role: "assistant", content: uses.length === 0 ? turn.text : [...said, ...uses] },
    ...(results.length === 0 ? [] : [{ role: "user", content: results }]),
  ];
}

/** What the user says behind results stands in the same turn. */
function joinUsers(turns: MessagesTurn[], turn: MessagesTurn): MessagesTurn[] {
  const last = turns.at(-1);
  if (last?.role !== "user" || turn.role !== "user") return [...turns, turn];
  const list = (content: unknown) => (Array.isArray(content) ? content : [{ type: "text", text: content }]);
  return [...turns.slice(0, -1), { role: "user", content: [...list(last.content), ...list(turn.content)] }];
}

function blocks(parts: readonly Part[]): unknown {
  const [only] = parts;
  if (parts.length === 1 && only?.kind === "text") return only.text;
  return parts.map((part) => {
    if (part.kind === "text") return { type: "text", text: part.text };
    if (part.kind === "image") {
      return { type: "image", source: { type: "base64", media_type: "image/png", data: part.data } };
    }
    const source = { type: "base64", media_type: "application/pdf", data: part.data };
    return { type: "document", source, title: part.name };
  });
}

/** The model stands in the path. */
export const generateContentFormat = {
  path: undefined,
  body(asked: Asked): object {
    const { tools, schema, temperature, maxTokens, stop } = asked;
    const generationConfig = {
      ...(schema && { responseMimeType: "application/json", responseJsonSchema: schema }),
      ...(temperature !== undefined && { temperature }),
      ...(maxTokens !== undefined && { maxOutputTokens: maxTokens }),
      ...(stop.length > 0 && { stopSequences: stop }),
    };
    return {
      ...(asked.system !== "" && { systemInstruction: { parts: [{ text: asked.system }] } }),
      contents: asked.turns.flatMap(contents),
      ...(tools.length > 0 && {
        tools: [
          {
            functionDeclarations: tools.map(({ parameters, ...tool }) => ({
              ...tool,
              parametersJsonSchema: parameters,
            })),
          },
        ],
        toolConfig: { functionCallingConfig: calling(asked.choice) },
      }),
      ...(Object.keys(generationConfig).length > 0 && { generationConfig }),
    };
  },
};

function calling(choice: string): object {
  const mode = { auto: "AUTO", none: "NONE", required: "ANY" }[choice];
  return mode === undefined ? { mode: "ANY", allowedFunctionNames: [choice] } : { mode };
}

function contents(turn: Turn): object[] {
  if (turn.kind === "user") return [{ role: "user", parts: turn.parts.map(inlined) }];
  const said = turn.text === "" ? [] : [{ text: turn.text }];
  const calls = turn.calls.map(({ id, name, args }) => ({ functionCall: { id, name, args } }));
  const responses = turn.calls.map(({ id, name, result }) => {
    const [text, ...media] = result.parts.map(inlined);
    const said = { [result.isError ? "error" : "output"]: (text as { text: string }).text };
    return { functionResponse: { id, name, response: said, ...(media.length > 0 && { parts: media }) } };
  });
  return [
    { role: "model", parts: [...said, ...calls] },
    ...(responses.length === 0 ? [] : [{ role: "user", parts: responses }]),
  ];
}

function inlined(part: Part): object {
  if (part.kind === "text") return { text: part.text };
  if (part.kind === "image") return { inlineData: { mimeType: "image/png", data: part.data } };
  return { inlineData: { mimeType: "application/pdf", data: part.data, displayName: part.name } };
}

/** Every client format. */
export const clientFormats = {
  chat: chatFormat,
  responses: responsesFormat,
  messages: messagesFormat,
  "generate-content": generateContentFormat,
} as const;
export type FormatName = keyof typeof clientFormats;
export const formatNames = Object.keys(clientFormats) as FormatName[];

export function pathOf(surface: SurfaceName, format: FormatName, model: string): string {
  const base = surface === "gateway" ? "/gateway" : "";
  const { path } = clientFormats[format];
  return path === undefined ? `${base}/v1beta/models/${model}:generateContent` : `${base}/v1${path}`;
}

/** A request for a model, whose name the body has unless the path has it. */
export function bodyFor(format: FormatName, asked: Asked, model: string): Record<string, unknown> {
  const body = { ...clientFormats[format].body(asked) };
  return clientFormats[format].path === undefined ? body : { ...body, model };
}

const words = fc.stringMatching(/^[A-Za-zé€"\\]{1,6}( [a-zß\n]{1,5}){0,2}$/);
const textPart = words.map((text): Part => ({ kind: "text", text }));
const imagePart = fc.constant<Part>({ kind: "image", data: png });
const filePart = fc.constant<Part>({ kind: "file", name: "a.pdf", data: pdf });

const names = ["look_up", "add"] as const;
const tools: readonly Tool[] = names.map((name) => ({
  name,
  description: `Does ${name}.`,
  parameters: { type: "object", properties: { q: { type: "string" } }, required: ["q"], additionalProperties: false },
}));
const args = fc.record({ q: words });
const result: fc.Arbitrary<ToolResult> = fc.record({
  parts: fc.oneof(
    { weight: 3, arbitrary: fc.tuple(textPart) },
    { weight: 1, arbitrary: fc.tuple(textPart, imagePart) },
  ),
  isError: fc.oneof({ weight: 3, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
});
const user: fc.Arbitrary<Turn> = fc
  .oneof(
    { weight: 3, arbitrary: fc.array(textPart, { minLength: 1, maxLength: 2 }) },
    { weight: 1, arbitrary: fc.tuple(textPart, imagePart) },
    { weight: 1, arbitrary: fc.tuple(textPart, filePart) },
  )
  .map((parts): Turn => ({ kind: "user", parts }));
const call = fc.record({ name: fc.constantFrom(...names), args, result });
const assistant = fc.record({ text: fc.oneof(fc.constant(""), words), calls: fc.array(call, { maxLength: 3 }) });

/** A user speaks, the model answers and calls, and the user or a tool has the last word. */
export const asked: fc.Arbitrary<Asked> = fc
  .record({
    system: fc.oneof(fc.constant(""), words),
    first: user,
    rounds: fc.array(fc.tuple(assistant, user), { maxLength: 3 }),
    tools: fc.constantFrom([], tools),
    choice: fc.constantFrom("auto", "none", "required", "add"),
    oneAtATime: fc.boolean(),
    schema: fc.constantFrom(undefined, tools[0]!.parameters),
    temperature: fc.constantFrom(undefined, 0.5),
    maxTokens: fc.constantFrom(64, 1000),
    stop: fc.constantFrom([], ["END"]),
  })
  .map(({ first, rounds, ...rest }) => {
    const turns = [first, ...rounds.flatMap(([said, next], at) => answered(said, next, at))];
    const hasCalls = turns.some((turn) => turn.kind === "assistant" && turn.calls.length > 0);
    return { ...rest, turns, tools: hasCalls ? tools : rest.tools };
  });

function answered(
  { text, calls }: { text: string; calls: readonly Omit<ToolUse, "id">[] },
  next: Turn,
  at: number,
): Turn[] {
  const isSilent = text === "" && calls.length === 0;
  const uses = calls.map((one, index) => ({ ...one, id: `call_${at}_${index}` }));
  return [{ kind: "assistant", text: isSilent ? "Yes." : text, calls: uses }, next];
}
