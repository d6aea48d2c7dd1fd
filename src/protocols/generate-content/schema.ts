/**
 * The body of a request, in one spelling, checked loosely: what is not known here passes, as Google adds some with every model.
 * Source: https://ai.google.dev/api/generate-content#request-body
 */
import { type Static, Type } from "@sinclair/typebox";
import { Nullable, Open, Words } from "../../lib/schemas.ts";

const object = Open({});
const word = Nullable(Type.String({ maxLength: 256 }));

const Blob = Open({
  mimeType: Type.String({ minLength: 1 }),
  data: Type.String(),
  displayName: Nullable(Type.String()),
});
const FileData = Open({ fileUri: Type.String({ minLength: 1 }), mimeType: Nullable(Type.String()) });
const id = Nullable(Type.String());
const functionName = Type.String({ minLength: 1, maxLength: 256 });

const Part = Open({
  text: Nullable(Type.String()),
  thought: Nullable(Type.Boolean()),
  thoughtSignature: Nullable(Type.String()),
  inlineData: Nullable(Blob),
  fileData: Nullable(FileData),
  functionCall: Nullable(Open({ id, name: functionName, args: Nullable(object) })),
  functionResponse: Nullable(
    Open({
      id,
      name: functionName,
      response: Nullable(object),
      parts: Nullable(Type.Array(Open({ inlineData: Nullable(Blob), fileData: Nullable(FileData) }))),
    }),
  ),
});

const parts = Nullable(Type.Array(Part));
const Content = Open({
  role: Nullable(Words(["user", "model", "function", "tool", ""], { description: "Absent: user." })),
  parts,
});

const Declaration = Open({
  name: functionName,
  description: Nullable(Type.String()),
  parameters: Nullable(object),
  parametersJsonSchema: Nullable(object),
});

const modes = ["AUTO", "ANY", "NONE", "VALIDATED", "MODE_UNSPECIFIED"] as const;

const ThinkingConfig = Open({
  includeThoughts: Nullable(Type.Boolean()),
  thinkingBudget: Nullable(Type.Integer({ minimum: -1, description: "0: off; -1: as the model likes." })),
  thinkingLevel: word,
});

const GenerationConfig = Open({
  temperature: Nullable(Type.Number({ description: "From 0 to 2." })),
  topP: Nullable(Type.Number({ description: "From 0 to 1; -1: not set." })),
  topK: Nullable(Type.Number({ description: "At least 0; -1: not set." })),
  maxOutputTokens: Nullable(Type.Integer({ minimum: 1 })),
  stopSequences: Nullable(Type.Array(Type.String())),
  candidateCount: Nullable(Type.Integer({ minimum: 1, maximum: 128 })),
  responseMimeType: word,
  responseSchema: Nullable(object),
  responseJsonSchema: Nullable(object),
  seed: Nullable(Type.Integer()),
  presencePenalty: Nullable(Type.Number({ description: "From -2 to 2." })),
  frequencyPenalty: Nullable(Type.Number({ description: "From -2 to 2." })),
  responseLogprobs: Nullable(Type.Boolean()),
  logprobs: Nullable(Type.Integer({ minimum: 0, maximum: 20 })),
  responseModalities: Nullable(Type.Array(Type.String())),
  thinkingConfig: Nullable(ThinkingConfig),
});

export const GenerateContentBody = Open({
  contents: Type.Array(Content, { minItems: 1, description: "One content, too, without a list." }),
  systemInstruction: Nullable(Open({ parts })),
  tools: Nullable(Type.Array(Open({ functionDeclarations: Nullable(Type.Array(Declaration)) }))),
  toolConfig: Nullable(
    Open({
      functionCallingConfig: Nullable(
        Open({
          mode: Nullable(Words(modes)),
          allowedFunctionNames: Nullable(Type.Array(Type.String())),
        }),
      ),
    }),
  ),
  generationConfig: Nullable(GenerationConfig),
  safetySettings: Nullable(Type.Array(object)),
  cachedContent: Nullable(Type.String()),
  serviceTier: word,
});

/** The body of a request to embed one text. */
export const EmbedContentBody = Open({
  content: Content,
  taskType: word,
  title: Nullable(Type.String()),
  outputDimensionality: Nullable(Type.Integer({ minimum: 1 })),
});
/** The body of a request to embed many. */
export const BatchEmbedBody = Open({ requests: Type.Array(EmbedContentBody, { minItems: 1 }) });

export type GenerateContentBody = Static<typeof GenerateContentBody>;
export type EmbedContentBody = Static<typeof EmbedContentBody>;
export type Content = Static<typeof Content>;
export type Part = Static<typeof Part>;
export type Blob = Static<typeof Blob>;
export type FileData = Static<typeof FileData>;
export type Declaration = Static<typeof Declaration>;
export type GenerationConfig = Static<typeof GenerationConfig>;
