/**
 * What a body names is found wherever a format lets it be named: at every place that the types of this season's clients have, a model,
 * a tool, a file or a kept thing is planted. A place that a new version of a client brings fails here until somebody has looked at it.
 */
import { beforeAll, describe, expect, test } from "bun:test";
import { hostedToolsIn } from "../../src/call/plan/hosted-tools.ts";
import { type BodyNames, namesIn } from "../../src/call/read/body-names.ts";
import type { JsonObject } from "../../src/lib/json/json.ts";
import { type Place, typedPlaces } from "../helpers/typed-places/places.ts";

const formats = ["Messages", "BetaMessages", "Responses", "Chat", "Completions", "Images", "GenerateContent"] as const;
let places: Record<(typeof formats)[number], Place[]>;
beforeAll(async () => {
  places = await typedPlaces(formats, () => true);
});

const all = () => formats.flatMap((format) => places[format].map((place) => [format, place] as const));
const lastOf = ({ path }: Place) => path.slice(path.lastIndexOf(".") + 1).replaceAll("[]", "");
const planted = ({ body }: Place) => namesIn({ parsed: body("planted") });
const pathsOf = (found: readonly (readonly [string, Place])[]) =>
  [...new Set(found.map(([, { path, owner }]) => `${path} (${owner.replace(/^Beta/, "")})`))].sort();

test("the clients' types are read", () => {
  const counts = formats.map((format) => places[format].length);
  for (const [at, least] of [400, 800, 350, 50, 5, 20, 150].entries()) expect(counts[at]).toBeGreaterThan(least);
});

/** The texts that name a model, by the names of their members, whatever the clients' types call them. */
const namesModel = /model(?:Name|_name|_id)?$|^engine$|^deployment/i;

describe("models", () => {
  test("are found at every place that names one", () => {
    const [found, missed] = [[], []] as [[string, Place][], [string, Place][]];
    for (const [format, place] of all()) {
      if (!namesModel.test(lastOf(place))) continue;
      const { models } = planted(place);
      (models.some(({ name }) => name === "planted") ? found : missed).push([format, place]);
    }
    expect(pathsOf(missed)).toEqual([]);
    // Those within the conversation, which a look at `tools` alone misses.
    const paths = pathsOf(found).join("\n");
    expect(paths).toContain("messages[].content[].tool.definition.model (AdvisorTool20260301)");
    expect(paths).toContain("messages[].content[].tool_changes[].tool.definition.model (AdvisorTool20260301)");
    expect(paths).toContain("input[].tools[].model (ImageGeneration)");
    expect(paths).toContain("input[].tools[].svg.model (Svg)");
    expect(paths).toContain("generationConfig.routingConfig.manualMode.modelName");
  });

  test("and at no other", () => {
    const found = all().filter(
      ([, place]) => !namesModel.test(lastOf(place)) && planted(place).models.some(({ name }) => name === "planted"),
    );
    expect(pathsOf(found)).toEqual([]);
  });

  test("may answer in place of the one that is asked, where they are no tool's", () => {
    const answering = all().filter(
      ([, place]) =>
        namesModel.test(lastOf(place)) &&
        planted(place).models.some(({ name, mayAnswer }) => name === "planted" && mayAnswer),
    );
    expect(pathsOf(answering).filter((path) => !path.startsWith("model "))).toEqual([
      "fallbacks[].model (FallbackParam)",
      "generationConfig.routingConfig.manualMode.modelName (GenerationConfigRoutingConfigManualRoutingMode)",
    ]);
  });

  test.each([
    [
      "chat",
      { messages: [{ role: "assistant", tool_calls: [{ function: { name: "f", arguments: '{"model":"a"}' } }] }] },
    ],
    ["a turn's own", { messages: [{ role: "assistant", model: "a", content: "b" }] }],
    ["Messages", { messages: [{ role: "assistant", content: [{ type: "tool_use", input: { model: "a" } }] }] }],
    ["Responses", { input: [{ type: "tool_search_call", arguments: { model: "a" } }] }],
    ["Responses' shell", { input: [{ type: "local_shell_call", action: { env: { MODEL: "a" } } }] }],
    ["Gemini", { contents: [{ parts: [{ functionCall: { args: { model: "a" } } }] }] }],
    ["Gemini's answers", { contents: [{ parts: [{ functionResponse: { response: { model: "a" } } }] }] }],
    [
      "functions",
      { tools: [{ type: "function", name: "f", parameters: { properties: { model: { type: "string" } } } }] },
    ],
    [
      "added functions",
      { input: [{ type: "additional_tools", tools: [{ type: "custom", parameters: { model: "a" } }] }] },
    ],
    ["schemas", { text: { format: { type: "json_schema", schema: { properties: { models: { const: "a" } } } } } }],
  ])("are not what words and tools are about: %s", (_, body) => {
    expect(namesIn({ parsed: body as JsonObject }).models).toEqual([]);
  });
});

test("tools are found at every place that declares some", () => {
  const declared = /(?:^|\.)(?:tools\[\]|definition)\./;
  const hosted = all().filter(([, { path }]) => declared.test(path));
  const missed = hosted.filter(([, place]) => planted(place).tools.length === 0);
  expect(pathsOf(missed)).toEqual([]);
  const images = hosted.filter(([, { owner }]) => owner === "ImageGeneration");
  expect(images.length).toBeGreaterThan(3);
  for (const [, place] of images) {
    const parsed = place.body("planted");
    expect(hostedToolsIn(namesIn({ parsed }), parsed)).toEqual([{ name: "image_generation", isFree: false }]);
  }
});

const references =
  /(?:_id|_ids|Ids|(?:^|\.)id|ur[il]|Ur[il]|fileUri|cachedContent|^container|^conversation|^audio)(?:\[\])*$/;

/** Ids and addresses that bring nothing for the model to read. */
const bringsNothing: readonly RegExp[] = [
  // The call that a result is of, and who made it.
  /(?:call_id|tool_use_id|caller_id|tool_id|approval_request_id|safety_checks\[\]\.id)$/,
  // What is said itself, whose own name it is.
  /^(?:messages\[\]\.content\[\]|input\[\]|messages\[\]\.tool_calls\[\])\.id$/,
  /\.(?:codeExecutionResult|executableCode|functionCall|functionResponse|toolCall|toolResponse)\.id$/,
  // What an answer had told of its sources, and what tools had found: it stands beside it.
  /\.(?:annotations|citations|results|tabs|state_changes|sources)\[\]\.\w+$|\.action\.url$/,
  /\.content(?:\[\])?\.(?:url)$|\.content\.content\[\]\.file_id$/,
  // Servers, and places in which tools work: they are bounded by the uses of a tool.
  /(?:container_id|skill_id|server_url|tunnel_id|vector_store_ids\[\]|ragFileIds\[\]|Transport\.url|mcp_servers\[\]\.url)$/,
  // Who asks, and what is compared.
  /(?:user_id|user_profile_id|workspace_id|diagnostics\.previous_message_id|comparison_response_id)$/,
  /^(?:audio|generationConfig\..*)\.voice\.id$/,
];
/** Beside the conversation's own names those of items that stand in place of what they name. */
const standsFor = new Set(["ItemReference", "ResponseReasoningItem", "ImageGenerationCall"]);

const brings = ({ images, linkedFiles, kept }: BodyNames) => images + linkedFiles + kept.length > 0;

describe("files and what is kept", () => {
  test("are found at every place that names one", () => {
    const missed = all().filter(([, place]) => {
      if (!references.test(place.path) || brings(planted(place))) return false;
      return standsFor.has(place.owner) || !bringsNothing.some((one) => one.test(place.path));
    });
    expect(pathsOf(missed)).toEqual([]);
  });

  test("and at no other but what holds an image itself", () => {
    const found = all().filter(
      ([, place]) =>
        !references.test(place.path) && !/^(?:container|prompt)\./.test(place.path) && brings(planted(place)),
    );
    expect(
      pathsOf(found).filter((path) => !/\.(?:data|result) \((?:Base64ImageSource|ImageGenerationCall)\)$/.test(path)),
    ).toEqual([]);
  });

  test("in a turn that calls itself an image", () => {
    const turn = { role: "user", type: "image", content: [{ type: "file", file: { file_id: "a" } }] };
    expect(namesIn({ parsed: { messages: [turn] } })).toMatchObject({ images: 0, linkedFiles: 1 });
  });

  const fileUri = "https://generativelanguage.googleapis.com/v1beta/files/a";
  const none = { images: 0, linkedFiles: 0, imageBytes: 0, fileBytes: 0 };
  test.each<[string, object, Partial<BodyNames>]>([
    ["a file of Google's store", { fileData: { fileUri, mimeType: "image/png" } }, { linkedFiles: 1 }],
    ["a video", { file_data: { file_uri: "https://youtu.be/a" } }, { linkedFiles: 1 }],
    ["a file of a bucket", { fileData: { fileUri: "gs://a/b.pdf", mimeType: "application/pdf" } }, { linkedFiles: 1 }],
    ["an image by its address", { fileData: { fileUri: "https://a/b.png", mimeType: "image/png" } }, { images: 1 }],
    ["a recording", { inlineData: { mimeType: "audio/wav", data: "abcd" } }, { fileBytes: 4 }],
    ["an image", { inline_data: { mime_type: "image/png", data: "abcd" } }, { images: 1, imageBytes: 4 }],
    ["a text", { inlineData: { mimeType: "text/plain", data: "abcd" } }, {}],
    ["a text of another type", { inlineData: { mimeType: "application/vnd.a+json; charset=utf-8", data: "abcd" } }, {}],
  ])("in Gemini's parts: %s", (_, part, found) => {
    for (const place of ["systemInstruction", "contents"]) {
      const { images, linkedFiles, imageBytes, fileBytes } = namesIn({ parsed: { [place]: { parts: [part] } } });
      expect({ images, linkedFiles, imageBytes, fileBytes }).toEqual({ ...none, ...found });
    }
  });

  test.each<[string, object, Partial<BodyNames>]>([
    ["a file", { type: "file", file: { file_data: "data:application/pdf;base64,abcd" } }, { fileBytes: 32 }],
    ["a file by its address", { type: "file", file: { file_data: "https://a/b.pdf" } }, { linkedFiles: 1 }],
    ["an image's text", { type: "image_url", image_url: "data:image/png;base64,abcd" }, { images: 1, imageBytes: 26 }],
    ["a video", { type: "video_url", video_url: { url: "https://a/b.mp4" } }, { linkedFiles: 1 }],
    ["a recording", { type: "input_audio", input_audio: { data: "abcd", format: "wav" } }, { fileBytes: 4 }],
    ["a text file", { type: "input_file", file_data: "data:text/plain;base64,abcd" }, {}],
    ["a text of no type", { type: "input_file", file_data: "data:;base64,abcd" }, {}],
    ["a program", { type: "file", file: { file_data: "data:application/x-python;base64,abcd" } }, {}],
    ["a plain document", { type: "document", source: { type: "text", media_type: "text/plain", data: "abcd" } }, {}],
    [
      "a document",
      { type: "document", source: { type: "base64", media_type: "application/pdf", data: "abcd" } },
      { fileBytes: 4 },
    ],
    [
      "a file in what is called an image",
      { type: "image", content: [{ type: "file", file: { file_id: "a" } }] },
      { linkedFiles: 1 },
    ],
    ["nothing", { type: "image_url", image_url: { url: "" } }, {}],
  ])("in a message's content: %s", (_, part, found) => {
    const { images, linkedFiles, imageBytes, fileBytes } = namesIn({
      parsed: { messages: [{ role: "user", content: [part] }] },
    });
    expect({ images, linkedFiles, imageBytes, fileBytes }).toEqual({ ...none, ...found });
  });
});
