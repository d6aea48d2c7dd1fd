/**
 * Finds what a request's body names, in the format of any provider and wherever a format lets it be named: models, tools that the
 * provider runs itself, files and images (as they are, or by an address or id), and what the provider keeps. One walk for all, so that
 * permission, prices, reservations and refusals can't differ in what they see. A name that no format has is taken for what it says.
 *
 * Sources: https://platform.openai.com/docs/api-reference/responses/create, https://platform.claude.com/docs/en/api/messages,
 * https://ai.google.dev/api/generate-content, https://openrouter.ai/docs/features/model-routing,
 * https://openrouter.ai/docs/guides/features/presets, https://console.groq.com/docs/compound,
 * https://learn.microsoft.com/azure/ai-foundry/openai/references/on-your-data, https://docs.sglang.io/docs/advanced_features/lora
 */

import { isTextType } from "../../lib/files/media-types.ts";
import { isObject, type JsonObject } from "../../lib/json/json.ts";
import type { PathPart } from "../../lib/json/schema-errors.ts";
import { type Source, textBytes, wholeText } from "../../protocols/body/source.ts";
import { googleUri } from "../../protocols/generate-content/media.ts";
import { holdsThoughts } from "../../protocols/responses/reasoning.ts";
import { isReference } from "../../protocols/responses/references.ts";

/** `mayAnswer`: in place of the one that is asked; others work for a tool or a check, or are told of in the conversation. */
type NamedModel = { readonly name: string; readonly path: readonly PathPart[]; readonly mayAnswer: boolean };

/** Kept by the provider: its size is known there alone. */
export type Kept = { readonly kind: KeptKind; readonly path: readonly PathPart[] };
export type KeptKind =
  | "response"
  | "conversation"
  | "container"
  | "thread"
  | "prompt"
  | "cache"
  | "item"
  | "reasoning"
  | "image";

export type BodyNames = {
  readonly models: readonly NamedModel[];
  /** Declarations of tools, in every place that declares some. */
  readonly tools: readonly JsonObject[];
  /** Servers that the provider calls tools of: https://platform.claude.com/docs/en/agents-and-tools/mcp-connector */
  readonly servers: number;
  readonly images: number;
  /** Files that are there by an address or an id. */
  readonly linkedFiles: number;
  /** Bytes of base64 in the body: of images, and of files and recordings. */
  readonly imageBytes: number;
  readonly fileBytes: number;
  readonly kept: readonly Kept[];
};

/** Whether a place is named anew on its way up. */
export type Renamed = (path: readonly PathPart[]) => boolean;

export const isOwnModel: Renamed = (path) => path.length === 1 && path[0] === "model";

/** A model's name as prices and keys have it: Google's is a path. */
export const plainModel = (name: string) => name.replace(/^models\//, "");

const found = new WeakMap<JsonObject, BodyNames>();

/** @returns the same for the same body, however often it is asked for */
export function namesIn(source: Pick<Source, "parsed" | "large">): BodyNames {
  const { parsed } = source;
  const known = found.get(parsed);
  if (known !== undefined) return known;
  const walk = new Walk(source);
  walk.object(parsed, 0);
  found.set(parsed, walk);
  return walk;
}

/** Servers differ in whether they heed a name's case, and its underscores. */
const plainName = (name: string) =>
  /[^a-z]/.test(name) ? name.toUpperCase().toLowerCase().replace(/[_-]/g, "") : name;

const naming =
  /models?(?:id|name)?s?$|^fallbacks?$|^preset$|^engines?$|^deployment(?:id|name)?$|^(?:lora|adapter)s?(?:path|id|name)?s?$/;
/** Among them those that have a price of their own. */
const answering = /models?(?:name)?s?$|^fallbacks?$/;
/** Checks of what is said: https://platform.openai.com/docs/api-reference/responses/create#responses-create-moderation */
const checks = "moderation";

/** Members that hold text, values or declarations, in which a name means something else; and what answers had told, which nobody reads again. */
const opaque: ReadonlySet<string> = new Set([
  ...["metadata", "variables", "documents", "logitbias", "format", "grammar", "responseformat", "outputformat"],
  ...["schema", "responseschema", "responsejsonschema", "jsonschema", "inputschema", "outputschema"],
  ...["parametersjsonschema", "inputexamples", "function", "functions", "functiondeclarations"],
  ...["arguments", "args", "env", "response", "action"],
  ...["annotations", "citations", "results", "tabs", "statechanges"],
]);

/** Texts that name nothing, and are most of what a conversation has: they need no look. */
const plainTexts: ReadonlySet<string> = new Set(["role", "type", "text", "content", "name", "id", "tool_use_id"]);

/** Members whose elements are turns or items: https://platform.openai.com/docs/api-reference/responses/create#responses-create-input */
const conversation: ReadonlySet<string> = new Set(["messages", "input", "contents"]);
const toolPlaces: ReadonlySet<string> = new Set(["tools", "servertools", "definition"]);

const reference =
  /^(?:file|image|video|audio|document|media|gcs|pdf)?ur[il]s?$|^(?:file|image|video|audio|document)ids?$/;
const picture = /^(?:input)?images?(?:mask|ur[il]s?|ids?)?$|^mask$/;
/** Types of what is, or makes, an image. */
const pictured = /image|screenshot/;
/** Blocks that say what a tool had found or made. */
const told = /_result$|code_execution_output$/;

const keptKinds: Readonly<Record<string, KeptKind>> = {
  previousresponseid: "response",
  previousinteractionid: "response",
  conversation: "conversation",
  container: "container",
  thread: "thread",
  prompt: "prompt",
  cachedcontent: "cache",
};

/** @returns what a field of a form names by its value; undefined: nothing */
export function namedByField(name: string): "model" | "file" | undefined {
  const plain = plainName(name.replace(/\[.*$/, ""));
  if (naming.test(plain)) return "model";
  return reference.test(plain) || picture.test(plain) ? "file" : undefined;
}

/** What is known of the place of a value, as bits. */
const inTool = 1;
const inTalk = 2;
const inPicture = 4;
const isTurn = 8;

class Walk implements BodyNames {
  readonly models: NamedModel[] = [];
  readonly tools: JsonObject[] = [];
  servers = 0;
  images = 0;
  linkedFiles = 0;
  imageBytes = 0;
  fileBytes = 0;
  readonly kept: Kept[] = [];
  readonly #source: Pick<Source, "large">;
  readonly #path: PathPart[] = [];

  constructor(source: Pick<Source, "large">) {
    this.#source = source;
  }

  object(value: JsonObject, place: number): void {
    const isTop = this.#path.length === 0;
    const type = typeof value["type"] === "string" ? value["type"] : "";
    const isOwnTurn = (place & isTurn) !== 0;
    if (isOwnTurn) this.#item(value, type);
    // What a turn calls itself says nothing of its parts.
    const within = (place & ~isTurn) | (!isOwnTurn && pictured.test(type) ? inPicture : 0);
    for (const name in value) {
      const member = value[name];
      if (typeof member !== "string" && (typeof member !== "object" || member === null)) continue;
      if (typeof member === "string" && plainTexts.has(name)) continue;
      const plain = plainName(name);
      this.#path.push(name);
      if (isTop && Object.hasOwn(keptKinds, plain)) this.#keeps(keptKinds[plain]!, member);
      if (typeof member !== "string") this.#member(member, plain, type, within, isTop);
      // A turn's own name of a model says who it is from.
      else if (!naming.test(plain)) this.#text(member, plain, type, within);
      else if (!isOwnTurn) this.#model(member, isOfAnswer(plain, within));
      this.#path.pop();
    }
  }

  #member(member: object, plain: string, type: string, within: number, isTop: boolean): void {
    // The parameters of a function that is said flat, as Responses says it.
    const declares = plain === "parameters" && (type === "function" || type === "custom");
    // What a tool is called with.
    const isCalled = plain === "input" && !isTop;
    if (opaque.has(plain) || declares || isCalled) return;
    if (plain === "content") this.#each(member, within & ~inPicture);
    else if (naming.test(plain)) this.#named(member, isOfAnswer(plain, within));
    else if (toolPlaces.has(plain)) this.#declared(member, within | inTool);
    else if (!this.#medium(member, plain, type, within)) {
      if (isTop && plain === "mcpservers") this.servers += Array.isArray(member) ? member.length : 1;
      this.#each(member, placeOf(plain, within));
    }
  }

  /** Walks through an object, or the objects of a list. */
  #each(value: object, place: number): void {
    if (!Array.isArray(value)) this.object(value as JsonObject, place);
    else
      this.#inList(value, (one) => {
        if (typeof one === "object" && one !== null) this.#each(one, place);
      });
  }

  #inList(list: readonly unknown[], visit: (one: unknown) => void): void {
    for (let at = 0; at < list.length; at += 1) {
      this.#path.push(at);
      visit(list[at]);
      this.#path.pop();
    }
  }

  /** Google takes one tool without its list. */
  #declared(value: object, place: number): void {
    if (Array.isArray(value)) {
      this.#inList(value, (one) => {
        if (typeof one === "object" && one !== null) this.#declared(one, place);
      });
      return;
    }
    this.tools.push(value as JsonObject);
    this.object(value as JsonObject, place);
  }

  #model(name: string, mayAnswer: boolean): void {
    this.models.push({ name, path: [...this.#path], mayAnswer });
  }

  /** All texts of a member that names models: in what stands beside a name in it, no name has its own price. */
  #named(value: unknown, mayAnswer: boolean): void {
    if (typeof value === "string") this.#model(value, mayAnswer);
    else if (Array.isArray(value)) this.#inList(value, (one) => this.#named(one, mayAnswer));
    else if (isObject(value)) {
      for (const name in value) {
        this.#path.push(name);
        this.#named(value[name], mayAnswer && answering.test(plainName(name)));
        this.#path.pop();
      }
    }
  }

  #text(text: string, plain: string, type: string, within: number): void {
    if (text === "") return;
    if (plain === "filedata") this.#file(text);
    else if (plain === "result" && type === "image_generation_call") this.#inline(text, inPicture);
    else if (!told.test(type)) this.#reference(text, plain, within);
  }

  #reference(text: string, plain: string, within: number): void {
    const isPicture = picture.test(plain);
    if (!isPicture && !reference.test(plain)) return;
    // The address of a server, or what a search is to look at.
    if ((within & inTool) !== 0 && /^ur[il]s?$/.test(plain)) return;
    const place = within | (isPicture ? inPicture : 0);
    if (/^data:/i.test(text)) this.#inline(text, place);
    else this.#link(place);
  }

  /** @returns whether it was one, and looked into */
  #medium(member: object, plain: string, type: string, within: number): boolean {
    if (Array.isArray(member)) {
      if (!picture.test(plain) && !reference.test(plain)) return false;
      this.#inList(member, (one) => {
        if (typeof one === "string") this.#reference(one, plain, within);
        else if (isObject(one)) this.object(one, placeOf(plain, within));
      });
      return true;
    }
    const value = member as JsonObject;
    const data = typeof value["data"] === "string" ? value["data"] : undefined;
    if (data !== undefined && (plain === "inlinedata" || (plain === "source" && value["type"] === "base64")))
      return this.#blob(data, value["mimeType"] ?? value["mime_type"] ?? value["media_type"], type);
    if (data !== undefined && plain === "inputaudio") return this.#inline(data, 0);
    if (plain === "filedata") return this.#stored(value);
    // An answer in sound that is said again: https://platform.openai.com/docs/guides/audio
    if (plain === "audio" && (within & inTalk) !== 0 && typeof value["id"] === "string") return this.#link(0);
    return false;
  }

  #blob(data: string, mimeType: unknown, type: string): true {
    const kind = typeof mimeType === "string" ? mimeType.toLowerCase() : "";
    // A text in base64 is one all the same.
    if (isTextType(kind.split(";", 1)[0]!)) return true;
    return this.#inline(data, type === "image" || (type === "" && kind.startsWith("image/")) ? inPicture : 0);
  }

  /** Gemini's `fileData`: what it is, is known of an address that Google has to fetch; its own stores know better. */
  #stored({ fileUri, file_uri, mimeType, mime_type }: JsonObject): boolean {
    const uri = fileUri ?? file_uri;
    const type = mimeType ?? mime_type;
    if (typeof uri !== "string" || uri === "") return false;
    const isImage = typeof type === "string" && /^image\//i.test(type);
    const address = this.#beginning(uri);
    return this.#link(isImage && /^https?:/i.test(address) && !googleUri.test(address) ? inPicture : 0);
  }

  /** @param text what the file holds, or its address */
  #file(text: string): void {
    if (/^[a-z][a-z\d+.-]*:\/\//i.test(text)) this.#link(0);
    else this.#inline(text, 0);
  }

  #link(place: number): true {
    if ((place & inPicture) !== 0) this.images += 1;
    else this.linkedFiles += 1;
    return true;
  }

  #inline(text: string, place: number): true {
    const type = /^data:([^;,]*)/i.exec(this.#beginning(text))?.[1];
    if (type !== undefined && (type.trim() === "" || isTextType(type))) return true;
    const size = textBytes(this.#source, text);
    if ((place & inPicture) === 0) this.fileBytes += size;
    else {
      this.images += 1;
      this.imageBytes += size;
    }
    return true;
  }

  /** Of a large text less may be there than its type. */
  #beginning(text: string): string {
    return wholeText(this.#source, text, 256);
  }

  #keeps(kind: KeptKind, value: unknown): void {
    if (kind === "prompt" && !isObject(value)) return;
    // https://platform.claude.com/docs/en/api/beta/messages/create: one that begins here holds nothing yet.
    if (kind === "thread" && isObject(value) && value["previous_message_id"] == null) return;
    this.kept.push({ kind, path: [...this.#path] });
  }

  /** Finds items that are named in place of being said, as `upstreamItems` of Responses does. */
  #item(value: JsonObject, type: string): void {
    if (typeof value["id"] !== "string") return;
    const kind = isReference(value) ? "item" : keptItem(value, type);
    if (kind !== undefined) this.kept.push({ kind, path: [...this.#path, "id"] });
  }
}

const isOfAnswer = (plain: string, within: number) => (within & (inTool | inTalk)) === 0 && answering.test(plain);

function keptItem(value: JsonObject, type: string): KeptKind | undefined {
  if (type === "reasoning" && !holdsThoughts(value)) return "reasoning";
  return type === "image_generation_call" && !value["result"] ? "image" : undefined;
}

function placeOf(plain: string, within: number): number {
  if (conversation.has(plain)) return within | inTalk | isTurn;
  if (plain === "mcpservers" || plain === checks) return within | inTool;
  return within | (picture.test(plain) ? inPicture : 0);
}
