/**
 * The body of a request, in one spelling, checked loosely: what is not known here passes, as Google adds some with every model.
 * Source: https://ai.google.dev/api/generate-content#request-body
 */
import { type Static, type TSchema, Type } from "@sinclair/typebox";

/** Clients in typed languages write null where they leave a field out. */
const Nullable = <T extends TSchema>(schema: T) => Type.Optional(Type.Union([schema, Type.Null()]));
const open = { additionalProperties: true } as const;
const object = Type.Object({}, open);
const word = Nullable(Type.String({ maxLength: 256 }));

const Blob = Type.Object(
  { mimeType: Type.String({ minLength: 1 }), data: Type.String(), displayName: Nullable(Type.String()) },
  open,
);
const FileData = Type.Object({ fileUri: Type.String({ minLength: 1 }), mimeType: Nullable(Type.String()) }, open);
const id = Nullable(Type.String());
const functionName = Type.String({ minLength: 1, maxLength: 256 });

const Part = Type.Object(
  {
    text: Nullable(Type.String()),
    thought: Nullable(Type.Boolean()),
    thoughtSignature: Nullable(Type.String()),
    inlineData: Nullable(Blob),
    fileData: Nullable(FileData),
    functionCall: Nullable(Type.Object({ id, name: functionName, args: Nullable(object) }, open)),
    functionResponse: Nullable(
      Type.Object(
        {
          id,
          name: functionName,
          response: Nullable(object),
          parts: Nullable(Type.Array(Type.Object({ inlineData: Nullable(Blob), fileData: Nullable(FileData) }, open))),
        },
        open,
      ),
    ),
  },
  open,
);

const parts = Nullable(Type.Array(Part));
const Content = Type.Object(
  {
    role: Nullable(
      Type.Union(
        ["user", "model", "function", "tool", ""].map((role) => Type.Literal(role)),
        { description: "Absent: user." },
      ),
    ),
    parts,
  },
  open,
);

const Declaration = Type.Object(
  {
    name: functionName,
    description: Nullable(Type.String()),
    parameters: Nullable(object),
    parametersJsonSchema: Nullable(object),
  },
  open,
);

const modes = ["AUTO", "ANY", "NONE", "VALIDATED", "MODE_UNSPECIFIED"] as const;

const ThinkingConfig = Type.Object(
  {
    includeThoughts: Nullable(Type.Boolean()),
    thinkingBudget: Nullable(Type.Integer({ minimum: -1, description: "0: off; -1: as the model likes." })),
    thinkingLevel: word,
  },
  open,
);

const GenerationConfig = Type.Object(
  {
    temperature: Nullable(Type.Number({ minimum: 0, maximum: 2 })),
    topP: Nullable(Type.Number({ minimum: 0, maximum: 1 })),
    topK: Nullable(Type.Number({ minimum: 0 })),
    maxOutputTokens: Nullable(Type.Integer({ minimum: 1 })),
    stopSequences: Nullable(Type.Array(Type.String())),
    candidateCount: Nullable(Type.Integer({ minimum: 1, maximum: 128 })),
    responseMimeType: word,
    responseSchema: Nullable(object),
    responseJsonSchema: Nullable(object),
    seed: Nullable(Type.Integer()),
    presencePenalty: Nullable(Type.Number({ minimum: -2, maximum: 2 })),
    frequencyPenalty: Nullable(Type.Number({ minimum: -2, maximum: 2 })),
    responseLogprobs: Nullable(Type.Boolean()),
    logprobs: Nullable(Type.Integer({ minimum: 0, maximum: 20 })),
    responseModalities: Nullable(Type.Array(Type.String())),
    thinkingConfig: Nullable(ThinkingConfig),
  },
  open,
);

export const GenerateContentBody = Type.Object(
  {
    contents: Type.Array(Content, { minItems: 1, description: "One content, too, without a list." }),
    systemInstruction: Nullable(Type.Object({ parts }, open)),
    tools: Nullable(Type.Array(Type.Object({ functionDeclarations: Nullable(Type.Array(Declaration)) }, open))),
    toolConfig: Nullable(
      Type.Object(
        {
          functionCallingConfig: Nullable(
            Type.Object(
              {
                mode: Nullable(Type.Union(modes.map((mode) => Type.Literal(mode)))),
                allowedFunctionNames: Nullable(Type.Array(Type.String())),
              },
              open,
            ),
          ),
        },
        open,
      ),
    ),
    generationConfig: Nullable(GenerationConfig),
    safetySettings: Nullable(Type.Array(object)),
    cachedContent: Nullable(Type.String()),
    serviceTier: word,
  },
  open,
);

/** To embed one text. */
export const EmbedContentBody = Type.Object(
  {
    content: Content,
    taskType: word,
    title: Nullable(Type.String()),
    outputDimensionality: Nullable(Type.Integer({ minimum: 1 })),
  },
  open,
);
/** To embed many. */
export const BatchEmbedBody = Type.Object({ requests: Type.Array(EmbedContentBody, { minItems: 1 }) }, open);

export type GenerateContentBody = Static<typeof GenerateContentBody>;
export type EmbedContentBody = Static<typeof EmbedContentBody>;
export type Content = Static<typeof Content>;
export type Part = Static<typeof Part>;
export type Blob = Static<typeof Blob>;
export type FileData = Static<typeof FileData>;
export type Declaration = Static<typeof Declaration>;
export type GenerationConfig = Static<typeof GenerationConfig>;
