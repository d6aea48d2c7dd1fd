/**
 * A persona as a character card. One that was imported from a card gives that card again, with what was changed since; another one
 * becomes a card of its own. Sources: https://github.com/malfoyslastname/character-card-spec-v2/blob/main/spec_v2.md,
 * https://github.com/kwaroran/character-card-spec-v3/blob/main/SPEC_V3.md
 */

import { isPng, keywordOf, plainImage, readChunks, textChunk, writeChunks } from "../../../lib/files/png.ts";
import { isObject, type JsonObject, listOf, objectOf, textOf } from "../../../lib/json/json.ts";
import { parseModelId } from "../../../protocols/model-id.ts";
import { parseTemplate } from "../../compose/template.ts";
import type { PersonaContent } from "../../file/schema.ts";
import { bookSources } from "../importers/character-card/book.ts";
import { dataOf, draftOfCard, extensionFields, extensionName, isCard } from "../importers/character-card/draft.ts";
import { keywords } from "../importers/character-card/importer.ts";
import { userVariable } from "../importers/character-card/macros.ts";
import { tavernExtensions } from "../importers/character-card/silly-tavern.ts";
import { type Draft, Omissions } from "../importers/draft.ts";
import { type Exporter, plainExamples, type Subject } from "./exporter.ts";

type Version = "v2" | "v3";

const json = (version: Version): Exporter => ({
  format: `card-${version}`,
  title: `Character Card ${version.toUpperCase()} (JSON)`,
  extension: ".json",
  write(subject) {
    const { card, omitted } = cardOf(subject, version);
    return { content: `${JSON.stringify(card, null, 2)}\n`, omitted };
  },
});

const png = (version: Version): Exporter => ({
  format: `card-${version}-png`,
  title: `Character Card ${version.toUpperCase()} (PNG: its avatar, or a plain picture)`,
  extension: ".png",
  write(subject) {
    const { card, omitted } = cardOf(subject, version);
    const isUsable = subject.avatar !== undefined && isPng(subject.avatar);
    const picture = isUsable ? subject.avatar! : plainImage(256, 384, colourOf(subject.id));
    const reason = subject.content.avatar?.startsWith("https://") ? "is an address" : "is no PNG";
    const isLost = !isUsable && subject.content.avatar !== undefined;
    const note = { place: "avatar", message: `${reason}: the picture is a plain one` };
    return { content: withCard(picture, card, version, subject), omitted: isLost ? [...omitted, note] : omitted };
  },
});

export const characterCards: readonly Exporter[] = [json("v2"), json("v3"), png("v2"), png("v3")];

/** Programs that know nothing of V3 read `chara`, where its notes say what they read: the specification asks for it. */
const backfillNote = "This is the V2 form of a Character Card V3, which a program for V3 shows in full.";

function withCard(picture: Uint8Array, card: JsonObject, version: Version, subject: Subject): Uint8Array {
  const chunks = readChunks(picture).filter(
    (chunk) => !(keywords as readonly string[]).includes(keywordOf(chunk) ?? ""),
  );
  const encoded = (value: JsonObject) => Buffer.from(JSON.stringify(value)).toString("base64");
  const texts =
    version === "v2"
      ? [textChunk("chara", encoded(card))]
      : [textChunk("chara", encoded(backfillOf(subject))), textChunk("ccv3", encoded(card))];
  return writeChunks([...chunks.slice(0, -1), ...texts, chunks.at(-1)!]);
}

function backfillOf(subject: Subject): JsonObject {
  const { card } = cardOf(subject, "v2");
  const data = objectOf(card["data"])!;
  const notes = [backfillNote, data["creator_notes"]].filter((text) => text !== "" && text !== undefined).join("\n\n");
  return { ...card, data: { ...data, creator_notes: notes } };
}

/** Not too bright and not too dark, and the same for a persona every time. */
function colourOf(id: string): [number, number, number] {
  const digest = Buffer.from(Bun.SHA256.hash(id, "hex"), "hex");
  const shade = (at: number) => 64 + (digest[at]! >> 1);
  return [shade(0), shade(1), shade(2)];
}

const specs: Readonly<Record<Version, JsonObject>> = {
  v2: { spec: "chara_card_v2", spec_version: "2.0" },
  v3: { spec: "chara_card_v3", spec_version: "3.0" },
};

/** Fields that must be there, with what stands for nothing. */
const requiredOfV2: JsonObject = {
  ...{ name: "", description: "", personality: "", scenario: "", first_mes: "", mes_example: "" },
  ...{ creator_notes: "", system_prompt: "", post_history_instructions: "", alternate_greetings: [], tags: [] },
  ...{ creator: "", character_version: "", extensions: {} },
};
const required: Readonly<Record<Version, JsonObject>> = {
  v2: requiredOfV2,
  v3: { ...requiredOfV2, group_only_greetings: [] },
};

/** @returns the card, and what of the persona it has no place for */
export function cardOf(
  subject: Subject,
  version: Version,
): { readonly card: JsonObject; readonly omitted: Omissions["list"] } {
  const { content } = subject;
  const omissions = new Omissions();
  const kept = isCard(content.card) ? structuredClone(content.card) : undefined;
  const before = kept === undefined ? undefined : draftOfCard(kept).draft;
  const data: JsonObject = kept === undefined ? newData(subject) : { ...dataOf(kept).data };
  const nickname = textOf(data["nickname"])?.trim() ?? "";
  if (version === "v2" && nickname !== "" && nickname !== data["name"])
    omissions.add(
      "card.data.nickname",
      `is of V3: {{char}} is '${String(data["name"])}' for programs of V2, not '${nickname}'`,
    );
  applyChanges(data, content, before, omissions);
  if (version === "v3") addIcon(data, content.avatar);
  omissions.addRest(content, inCards, [], "has no place in a card");
  return { card: assemble(kept, data, version), omitted: omissions.list };
}

/** Fields that a card has, and those of this program's extension of it; an avatar is its picture. */
const inCards: readonly string[] = [
  ...["description", "system", "examples", "greeting", "tags", "lorebook", "card", "avatar"],
  ...extensionFields,
];

function newData({ id }: Subject): JsonObject {
  const { namespace = "", name = id } = parseModelId(id) ?? {};
  const words = name.split(/[-_.]+/).filter((word) => word !== "");
  return { name: words.map((word) => word[0]!.toUpperCase() + word.slice(1)).join(" "), creator: namespace };
}

/** A card of the same version stays as it was around its data; V1 fields that stand beside the data follow it. */
function assemble(kept: JsonObject | undefined, data: JsonObject, version: Version): JsonObject {
  const isSameVersion = kept?.["spec"] === specs[version]["spec"];
  if (kept === undefined || kept["spec"] === undefined)
    return { ...specs[version], data: { ...required[version], ...data } };
  const around: JsonObject = { ...kept, ...(!isSameVersion && specs[version]) };
  const was = dataOf(kept).data;
  for (const key of Object.keys(around)) {
    if (key !== "data" && Object.hasOwn(data, key) && around[key] === was[key]) around[key] = data[key];
  }
  return { ...around, data: isSameVersion ? data : { ...required[version], ...data } };
}

/** Writes what differs from what the card gave when it was imported. */
function applyChanges(
  data: JsonObject,
  content: PersonaContent,
  before: Draft | undefined,
  omissions: Omissions,
): void {
  const isChanged = (field: keyof Draft & keyof PersonaContent) => {
    const was = before?.[field];
    return before === undefined ? content[field] !== undefined : !Bun.deepEquals(was ?? null, content[field] ?? null);
  };
  const isPromptChanged = isChanged("system");
  if (isPromptChanged) {
    data["system_prompt"] = macrosOf(content.system);
    for (const field of ["description", "personality", "scenario", "post_history_instructions"]) data[field] = "";
  }
  if (isPromptChanged || isChanged("examples")) data["mes_example"] = examplesOf(content, omissions);
  if (isChanged("greeting")) data["first_mes"] = content.greeting ?? "";
  if (isChanged("tags")) data["tags"] = [...(content.tags ?? [])];
  if (isChanged("description")) data["creator_notes"] = content.description;
  if (isChanged("lorebook")) {
    if (content.lorebook === undefined) delete data["character_book"];
    else data["character_book"] = bookOf(content.lorebook, objectOf(data["character_book"]), before?.lorebook);
  }
  const changed = extensionFields.filter(isChanged);
  if (changed.length === 0) return;
  const extensions = objectOf(data["extensions"]) ?? {};
  const own: JsonObject = { ...objectOf(extensions[extensionName]) };
  for (const field of changed) {
    if (content[field] === undefined) delete own[field];
    else own[field] = content[field];
  }
  const { [extensionName]: _, ...others } = extensions;
  data["extensions"] = Object.keys(own).length === 0 ? others : { ...others, [extensionName]: own };
}

/** A template as a card's text: `{{user}}` is one of its macros, other variables stand there by name. */
const macrosOf = (template: string) =>
  parseTemplate(template)
    .map((part) => ("text" in part ? part.text : `{{${part.variable}}}`))
    .join("");

const examplesOf = (content: PersonaContent, omissions: Omissions): string =>
  [...plainExamples(content, omissions, "has tool calls, which a card can't show")]
    .map(({ question, answer }) => `<START>\n{{${userVariable}}}: ${question}\n{{char}}: ${answer}`)
    .join("\n");

type Book = NonNullable<PersonaContent["lorebook"]>;
type BookEntry = Extract<Book, readonly unknown[]>[number];

/**
 * @param was the card's own book
 * @param before what was made of it: an entry that is the same since then stays as the card has it, and so does one that had no place in
 * a persona
 */
function bookOf(field: Book, was: JsonObject = {}, before: Book = []): JsonObject {
  const { entries, ...bounds } = Array.isArray(field) ? { entries: field } : field;
  const imported = [...entriesOf(before)];
  const made = new Set(imported.map((entry) => bookSources.get(entry)));
  const unsaid = listOf(was["entries"]).filter((entry) => !made.has(entry as JsonObject));
  const own = entries.map((entry, at) => {
    const same = imported.findIndex((one) => Bun.deepEquals(one, entry));
    const [source] = same < 0 ? [] : imported.splice(same, 1);
    return (source && bookSources.get(source)) ?? newEntry(entry, at);
  });
  return { extensions: {}, ...was, ...bounds, entries: [...own, ...unsaid] };
}

const entriesOf = (book: Book): readonly BookEntry[] => (Array.isArray(book) ? book : book.entries);

function newEntry(entry: BookEntry, at: number): JsonObject {
  const { name, keys = [], secondary_keys = [], content, position, depth, order = 100, priority } = entry;
  return {
    ...(name !== undefined && { name }),
    keys,
    content: depth === undefined ? macrosOf(content) : `@@depth ${depth}\n${macrosOf(content)}`,
    extensions: tavernExtensions(entry),
    enabled: entry.enabled !== false,
    insertion_order: order,
    use_regex: false,
    constant: entry.constant === true,
    ...(secondary_keys.length > 0 && { selective: true, secondary_keys }),
    ...(entry.case_sensitive !== undefined && { case_sensitive: entry.case_sensitive }),
    ...(priority !== undefined && { priority }),
    ...(position !== undefined && { position: position === "before_system" ? "before_char" : "after_char" }),
    id: at,
  };
}

function addIcon(data: JsonObject, avatar: string | undefined): void {
  if (avatar === undefined || !avatar.startsWith("https://")) return;
  const assets = listOf(data["assets"]);
  if (assets.some((asset) => isObject(asset) && asset["uri"] === avatar)) return;
  const ext = /\.(png|jpe?g|webp|gif|avif)(?:[?#]|$)/i.exec(avatar)?.[1] ?? "unknown";
  data["assets"] = [{ type: "icon", uri: avatar, name: "main", ext }, ...assets];
}
