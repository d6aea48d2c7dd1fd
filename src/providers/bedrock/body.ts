/**
 * A chat request as the body of Converse. The format is built like the Messages API, so the request becomes turns, tools and plans of
 * that one first, which are written here in Converse's words.
 * Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html
 */
import type {
  CacheControlEphemeral,
  ContentBlockParam,
  TextBlockParam,
  Tool,
  ToolChoice,
} from "@anthropic-ai/sdk/resources/messages";
import type { BedrockRules } from "../../facts/vocabulary/bedrock.ts";
import { type JsonObject, objectOf } from "../../lib/json/json.ts";
import type { ChatRequest } from "../../protocols/chat/schema.ts";
import { cleanId } from "../../protocols/messages/facts.ts";
import { dropExcessMarkers, markSystem } from "../anthropic/cache.ts";
import { encodeConversation, type Turn } from "../anthropic/messages.ts";
import { planOutput } from "../anthropic/output.ts";
import { cacheMarker } from "../anthropic/parts.ts";
import { outputTokens, refuseUnsupported, sampling, stopSequences } from "../anthropic/request.ts";
import { canStartThinking, planThinking, type ThinkingPlan } from "../anthropic/thinking.ts";
import { demandsCall, planTools } from "../anthropic/tools.ts";
import type { Call } from "../provider.ts";
import { type OwnBlock, partsOf } from "./parts.ts";
import { bedrockRules } from "./rules.ts";

type Block = ContentBlockParam | OwnBlock;

/** @throws ApiError for what this provider can't do, naming the field */
export function converseBody(call: Call): JsonObject {
  const { request } = call;
  refuseUnsupported(request);
  const rules = bedrockRules(call);
  const output = planOutput(request, rules);
  const wording = { parts: partsOf(call), callId: toolUseId };
  const { system, turns } = encodeConversation(request.messages, rules, wording);
  if (output.kind === "instruction") system.push({ type: "text", text: output.text });
  const toolPlan = planTools(request, rules, output);
  const thinking = planThinking(call, rules, !demandsCall(toolPlan) && canStartThinking(turns));
  const { cached, ...marked } = marksOf(call, { system, messages: turns, tools: toolPlan.tools });
  const blocks = new BlockWriter(rules);
  const messages = openedByUser(marked.messages).map(({ role, content }) => ({ role, content: blocks.all(content) }));
  if (cached !== undefined) messages.at(-1)?.content.push(...blocks.cachePoint(cached));
  const toolConfig = toolConfigOf(marked.tools, toolPlan.choice, messages, blocks);
  const more = additionalFields(call, rules, thinking);
  const inference = inferenceConfig(request, rules, thinking);
  const textFormat = output.kind === "format" ? { outputConfig: outputConfig(request, output.schema) } : {};
  return {
    messages,
    ...(marked.system.length > 0 && { system: blocks.all(marked.system) }),
    ...(Object.keys(inference).length > 0 && { inferenceConfig: inference }),
    ...(toolConfig !== undefined && { toolConfig }),
    ...textFormat,
    ...(Object.keys(more).length > 0 && { additionalModelRequestFields: more }),
    ...callOptions(call),
  };
}

/** https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolUseBlock.html: at most 64 characters, `[a-zA-Z0-9_-]+` */
function toolUseId(id: string): string {
  const clean = cleanId(id);
  if (clean.length <= 64) return clean || "call";
  return `${clean.slice(0, 40)}_${Bun.SHA256.hash(id, "hex").slice(0, 23)}`;
}

type Marks = { system: TextBlockParam[]; messages: Turn[]; tools: Tool[] };

/** @returns `cached`: the marker of the last turn's end, which this format has no member for */
function marksOf(
  { request, extras }: Call,
  { system, messages, tools }: Marks,
): Marks & { cached?: CacheControlEphemeral } {
  const said = {
    messages,
    ...(system.length > 0 && { system }),
    ...(tools.length > 0 && { tools }),
    ...cacheMarker(request),
  };
  const marker = extras["system_cache_control"] as CacheControlEphemeral | undefined;
  const body = dropExcessMarkers(marker === undefined ? said : markSystem(said, marker));
  const { cache_control: cached } = body;
  return { messages: body.messages, system: body.system ?? [], tools: body.tools ?? [], ...(cached && { cached }) };
}

/** "A conversation must start with a user message." */
function openedByUser(turns: readonly Turn[]): readonly Turn[] {
  const opening: Turn = { role: "user", content: [{ type: "text", text: "Continue." }] };
  return turns[0]?.role === "user" ? turns : [opening, ...turns];
}

class BlockWriter {
  readonly #rules: BedrockRules;

  constructor(rules: BedrockRules) {
    this.#rules = rules;
  }

  all(blocks: readonly Block[]): JsonObject[] {
    return blocks.flatMap((block) => {
      const written = this.#one(block);
      return written === undefined ? [] : [written, ...this.#markOf(block)];
    });
  }

  /** https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html: one hour is Claude's alone */
  cachePoint({ ttl }: CacheControlEphemeral): JsonObject[] {
    if (this.#rules.cache_points === "none") return [];
    const isTaken = ttl != null && this.#rules.cache_points === "all";
    return [{ cachePoint: { type: "default", ...(isTaken && { ttl }) } }];
  }

  tool({ name, description, input_schema, strict, cache_control }: Tool): JsonObject[] {
    const toolSpec = {
      name,
      ...(description !== undefined && description !== "" && { description }),
      inputSchema: { json: input_schema },
      ...(strict === true && { strict }),
    };
    return [
      { toolSpec },
      ...(cache_control && this.#rules.cache_points === "all" ? this.cachePoint(cache_control) : []),
    ];
  }

  #markOf(block: Block): JsonObject[] {
    const { cache_control: marker } = cacheMarker(block);
    return marker === undefined ? [] : this.cachePoint(marker);
  }

  #one(block: Block): JsonObject | undefined {
    switch (block.type) {
      case "converse":
        return block.block as unknown as JsonObject;
      case "text":
        return { text: block.text };
      case "tool_use":
        return { toolUse: { toolUseId: block.id, name: block.name, input: block.input } };
      case "tool_result":
        return { toolResult: this.#result(block) };
      case "thinking":
        return this.#thought({ reasoningText: { text: block.thinking, signature: block.signature } });
      case "redacted_thinking":
        return this.#thought({ redactedContent: block.data });
      default:
        return undefined;
    }
  }

  /** Only Claude takes its thoughts back; its signatures are worth nothing to other models. */
  #thought(reasoningContent: JsonObject): JsonObject | undefined {
    return this.#rules.reasoning === "claude" ? { reasoningContent } : undefined;
  }

  #result({ tool_use_id, content, is_error }: ContentBlockParam & { type: "tool_result" }): JsonObject {
    const blocks =
      typeof content === "string" ? [{ text: content }] : this.all((content ?? []) as readonly ContentBlockParam[]);
    return {
      toolUseId: tool_use_id,
      // A blank text is refused.
      content: blocks.length > 0 ? blocks : [{ json: {} }],
      ...(is_error === true && this.#rules.result_status && { status: "error" }),
    };
  }
}

/**
 * There is no choice that forbids calls: without calls in the conversation the tools are left out, as "the toolConfig field must be
 * defined when using toolUse and toolResult content blocks".
 */
function toolConfigOf(
  tools: readonly Tool[],
  choice: ToolChoice | undefined,
  messages: readonly { readonly content: readonly JsonObject[] }[],
  blocks: BlockWriter,
): JsonObject | undefined {
  const called = new Set(
    messages.flatMap(({ content }) =>
      content.flatMap(({ toolUse }) => String(objectOf(toolUse)?.["name"] ?? "") || []),
    ),
  );
  if (tools.length === 0 || choice?.type === "none") {
    if (called.size === 0) return undefined;
    const known = tools.length > 0 ? tools : [...called].map(unknownTool);
    return { tools: known.flatMap((tool) => blocks.tool(tool)) };
  }
  const toolChoice = choiceOf(choice);
  return { tools: tools.flatMap((tool) => blocks.tool(tool)), ...(toolChoice !== undefined && { toolChoice }) };
}

const unknownTool = (name: string): Tool => ({ name, input_schema: { type: "object", properties: {} } });

function choiceOf(choice: ToolChoice | undefined): JsonObject | undefined {
  if (choice === undefined) return undefined;
  return choice.type === "tool" ? { tool: { name: choice.name } } : { [choice.type]: {} };
}

function outputConfig({ response_format }: ChatRequest, schema: JsonObject): JsonObject {
  const { name, description } =
    response_format?.type === "json_schema" ? response_format.json_schema : { name: undefined, description: undefined };
  const jsonSchema = {
    schema: JSON.stringify(schema),
    ...(name !== undefined && { name }),
    ...(description != null && { description }),
  };
  return { textFormat: { type: "json_schema", structure: { jsonSchema } } };
}

/** Absent, the model's own limit applies. */
function inferenceConfig(request: ChatRequest, rules: BedrockRules, thinking: ThinkingPlan): JsonObject {
  // https://docs.aws.amazon.com/nova/latest/nova2-userguide/extended-thinking.html: at this effort Nova takes none of these
  const isLeftOut = rules.reasoning === "nova" && thinking.thinking !== undefined && thinking.effort === "high";
  const wanted = request.max_completion_tokens ?? request.max_tokens;
  const hasTokens = wanted !== undefined || thinking.thinking?.budget_tokens !== undefined;
  const { temperature, top_p } = sampling(request, rules, rules.reasoning === "claude" ? thinking : {});
  return {
    ...(hasTokens && !isLeftOut && { maxTokens: outputTokens(request, rules, thinking) }),
    ...(temperature !== undefined && !isLeftOut && { temperature }),
    ...(top_p !== undefined && !isLeftOut && { topP: top_p }),
    ...stopSequencesOf(request),
  };
}

function stopSequencesOf(request: ChatRequest): { stopSequences?: string[] } {
  const { stop_sequences } = stopSequences(request);
  return stop_sequences === undefined ? {} : { stopSequences: stop_sequences };
}

/** Fields of the models' own. The caller's go before those made here. */
function additionalFields(call: Call, rules: BedrockRules, thinking: ThinkingPlan): JsonObject {
  const given = objectOf(call.extras["additional_model_request_fields"]) ?? {};
  return { ...reasoningFields(rules, thinking), ...topK(call, rules, thinking), ...given };
}

function reasoningFields({ reasoning }: BedrockRules, { thinking, effort }: ThinkingPlan): JsonObject {
  switch (reasoning) {
    // https://docs.aws.amazon.com/bedrock/latest/userguide/claude-messages-extended-thinking.html
    case "claude":
      return {
        ...(thinking !== undefined && { thinking }),
        ...(effort !== undefined && { output_config: { effort } }),
      };
    case "nova":
      return thinking === undefined
        ? {}
        : { reasoningConfig: { type: "enabled", maxReasoningEffort: effort ?? "medium" } };
    // https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-openai.html
    case "effort":
      return effort === undefined ? {} : { reasoning_effort: effort };
    case "none":
      return {};
  }
}

function topK({ request }: Call, rules: BedrockRules, thinking: ThinkingPlan): JsonObject {
  const { top_k } = request as JsonObject;
  if (typeof top_k !== "number") return {};
  // https://docs.aws.amazon.com/nova/latest/userguide/complete-request-schema.html
  if (rules.top_k === "nova") return { inferenceConfig: { topK: top_k } };
  const taken = rules.top_k === "claude" && sampling(request, rules, thinking)["top_k"] !== undefined;
  return taken ? { top_k } : {};
}

/** https://docs.aws.amazon.com/bedrock/latest/userguide/service-tiers-inference.html */
const tiers: ReadonlySet<string> = new Set(["default", "flex", "priority", "reserved"]);

function callOptions({ request, extras, account }: Call): JsonObject {
  const guardrail = objectOf(extras["guardrail_config"] ?? account.options["guardrail"]);
  const { service_tier = "" } = request;
  const performance = objectOf(extras["performance_config"]);
  const metadata = objectOf(extras["request_metadata"]);
  return {
    ...(guardrail !== undefined && { guardrailConfig: guardrailOf(guardrail, request.stream === true) }),
    ...(performance !== undefined && { performanceConfig: performance }),
    ...(metadata !== undefined && { requestMetadata: metadata }),
    ...(tiers.has(service_tier) && { serviceTier: { type: service_tier } }),
  };
}

/** The mode of streams is refused where there is none. */
function guardrailOf({ streamProcessingMode, ...config }: JsonObject, isStreamed: boolean): JsonObject {
  return isStreamed && streamProcessingMode !== undefined ? { ...config, streamProcessingMode } : config;
}
