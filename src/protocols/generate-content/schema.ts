/**
 * The body of a request, in one spelling, checked loosely: what is not known here passes, as Google adds some with every model.
 * Source: https://ai.google.dev/api/generate-content#request-body
 */
import { type Static, Type } from "@sinclair/typebox";
import { Nullable, Open, titled, Words } from "../../lib/json/schemas.ts";
import { Judged } from "../body/judged.ts";

const object = Open({});
const anyWord = Type.String({ maxLength: 256 });
const word = Nullable(anyWord);
const anyNumber = Type.Number();
/** Zero is what a field that is not set holds: https://protobuf.dev/programming-guides/proto3/#default */
const maybeNone = Type.Integer({ minimum: 0 });

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
      name: Nullable(anyWord),
      response: Nullable(object),
      parts: Nullable(Type.Array(Open({ inlineData: Nullable(Blob), fileData: Nullable(FileData) }))),
    }),
  ),
});

const parts = Nullable(Type.Array(Part));
const Content = Open({
  role: Nullable(Judged(Words(["user", "model", "function", "tool", ""], { description: "Absent: user." }), anyWord)),
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
  thinkingBudget: Nullable(
    Judged(Type.Integer({ minimum: -1, description: "0: off; -1: as the model likes." }), Type.Integer()),
  ),
  thinkingLevel: word,
});

const GenerationConfig = Open({
  temperature: Nullable(Judged(Type.Number({ minimum: 0, maximum: 2 }), anyNumber)),
  topP: Nullable(Judged(Type.Number({ minimum: 0, maximum: 1 }), anyNumber)),
  topK: Nullable(Judged(Type.Number({ minimum: 0 }), anyNumber)),
  maxOutputTokens: Nullable(Judged(Type.Integer({ minimum: 1 }), maybeNone)),
  stopSequences: Nullable(Type.Array(Type.String())),
  candidateCount: Nullable(Judged(Type.Integer({ minimum: 1, maximum: 128 }), maybeNone)),
  responseMimeType: word,
  responseSchema: Nullable(object),
  responseJsonSchema: Nullable(object),
  seed: Nullable(Type.Integer()),
  presencePenalty: Nullable(Judged(Type.Number({ minimum: -2, maximum: 2 }), anyNumber)),
  frequencyPenalty: Nullable(Judged(Type.Number({ minimum: -2, maximum: 2 }), anyNumber)),
  responseLogprobs: Nullable(Type.Boolean()),
  logprobs: Nullable(Judged(Type.Integer({ minimum: 0, maximum: 20 }), Type.Integer())),
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
          mode: Nullable(Judged(Words(modes), anyWord)),
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
export const BatchEmbedBody = Open({ requests: Type.Array(EmbedContentBody, { minItems: 1 }) });

titled(
  {
    Blob,
    FileData,
    Part,
    Content,
    ThinkingConfig,
    GenerationConfig,
    FunctionDeclaration: Declaration,
    GenerateContentRequest: GenerateContentBody,
    EmbedContentRequest: EmbedContentBody,
    BatchEmbedContentsRequest: BatchEmbedBody,
  },
  "Gemini",
);

export type GenerateContentBody = Static<typeof GenerateContentBody>;
export type EmbedContentBody = Static<typeof EmbedContentBody>;
export type Content = Static<typeof Content>;
export type Part = Static<typeof Part>;
export type Blob = Static<typeof Blob>;
export type FileData = Static<typeof FileData>;
export type Declaration = Static<typeof Declaration>;
export type GenerationConfig = Static<typeof GenerationConfig>;
