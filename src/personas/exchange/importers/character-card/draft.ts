/**
 * A character card, of V1, V2 or V3, as a draft of a persona. The card itself is kept whole under `card`, for the way back.
 * Sources: https://github.com/malfoyslastname/character-card-spec-v2/blob/main/spec_v2.md,
 * https://github.com/kwaroran/character-card-spec-v3/blob/main/SPEC_V3.md
 */
import { isObject, type JsonObject, listOf, objectOf, textOf } from "../../../../lib/json/json.ts";
import type { PathPart } from "../../../../lib/json/schema-errors.ts";
import { words } from "../../../../lib/text/words.ts";
import { parseTemplate } from "../../../compose/template.ts";
import { variablesInLorebook } from "../../../knowledge/rules.ts";
import {
  type Draft,
  type DraftTurn,
  descriptionOf,
  type Examples,
  type Imported,
  Omissions,
  pairedTurns,
  type Variables,
  withoutEmpty,
} from "../draft.ts";
import { ImportError } from "../source.ts";
import { lorebookOf } from "./book.ts";
import { defaultUser, Macros, type Piece, userVariable } from "./macros.ts";

/** The name of this program's own part of a card's `extensions`. */
export const extensionName = "troupe";
/**
 * Fields of a persona that a card has no place for, kept in that extension. Cards come from strangers: what reads files, calls servers
 * or keeps conversations is not among them.
 */
export const extensionFields = ["variables", "tools", "defaults", "limits", "stop", "response_format"] as const;

const textsOfV1 = ["name", "description", "personality", "scenario", "first_mes", "mes_example"] as const;

/** True for a card of any version, or what calls itself one. */
export function isCard(value: unknown): value is JsonObject {
  if (!isObject(value)) return false;
  if (/^(?:chara_card|lorebook)_v/.test(textOf(value["spec"]) ?? "")) return true;
  return typeof value["name"] === "string" && textsOfV1.filter((key) => typeof value[key] === "string").length >= 4;
}

/** @returns the fields of the character, and where in the card they stand */
export function dataOf(card: JsonObject): { readonly data: JsonObject; readonly path: readonly PathPart[] } {
  if (card["spec"] === undefined) return { data: card, path: [] };
  return { data: objectOf(card["data"]) ?? {}, path: ["data"] };
}

/** @throws ImportError for what is no character */
export function draftOfCard(card: JsonObject): Imported {
  const { data, path } = dataOf(card);
  if (String(card["spec"]).startsWith("lorebook")) {
    throw new ImportError("spec", "is a lorebook alone: import the card it belongs to, or write it under lorebook");
  }
  if (card["spec"] !== undefined && !isObject(card["data"])) throw new ImportError("data", "is missing");
  const name = textOf(data["name"])?.trim() ?? "";
  if (name === "") throw new ImportError([...path, "name"].join("."), "is missing: it is what the character is called");
  return new CardReader(card, data, path, name).read();
}

class CardReader {
  readonly #card: JsonObject;
  readonly #data: JsonObject;
  readonly #path: readonly PathPart[];
  readonly #name: string;
  readonly #character: string;
  readonly #extension: Partial<Draft>;
  readonly #omissions = new Omissions();
  readonly #macros: Macros;

  constructor(card: JsonObject, data: JsonObject, path: readonly PathPart[], name: string) {
    this.#card = card;
    this.#data = data;
    this.#path = path;
    this.#name = name;
    this.#character = (isV3(card) && textOf(data["nickname"])?.trim()) || name;
    const extension = objectOf(objectOf(data["extensions"])?.[extensionName]) ?? {};
    this.#extension = Object.fromEntries(
      extensionFields.flatMap((field) => (extension[field] === undefined ? [] : [[field, extension[field]]])),
    );
    const variables = objectOf(this.#extension.variables) ?? {};
    this.#macros = new Macros(this.#character, Object.keys(variables), this.#omissions);
  }

  read(): Imported {
    const examples = this.#examples();
    const system = this.#system(examples.unpaired);
    const book = this.#data["character_book"];
    const lorebook = isObject(book)
      ? lorebookOf(book, [...this.#path, "character_book"], this.#macros, this.#omissions)
      : undefined;
    const used = new Set([...variablesIn(system), ...variablesInLorebook(lorebook ?? [])]);
    const declared: Variables = { ...this.#extension.variables };
    if (used.has(userVariable)) {
      declared[userVariable] ??= { description: "The name of who talks to the character.", default: defaultUser };
    }
    const variables = Object.fromEntries(Object.entries(declared).filter(([name]) => used.has(name)));
    const greeting = this.#macros.plain(this.#text("first_mes"), [...this.#path, "first_mes"]);
    this.#listRest();
    const draft: Draft = withoutEmpty({
      description: descriptionOf(this.#text("creator_notes")) ?? descriptionOf(`${this.#name}, a character.`),
      tags: this.#tags(),
      ...(greeting !== "" && { greeting }),
      system,
      ...this.#extension,
      variables,
      examples: examples.turns,
      ...(lorebook !== undefined && lorebook.entries.length > 0 && { lorebook }),
      card: this.#card,
    });
    return { name: this.#name, draft, omitted: this.#omissions.list };
  }

  #text(field: string): string {
    const value = this.#data[field];
    if (value !== undefined && value !== null && typeof value !== "string") {
      throw new ImportError([...this.#path, field].join("."), "must be text");
    }
    return (value ?? "").toWellFormed();
  }

  /** The parts of the prompt in the order in which frontends send them. An empty prompt of the card means the program's own. */
  #system(unpairedExamples: readonly string[]): string {
    const part = (field: string, label = "", original: readonly Piece[] = []) => {
      const text = this.#macros.template(this.#text(field), [...this.#path, field], original).trim();
      return text === "" ? "" : `${label}${text}`;
    };
    const fallback = [`You are ${this.#character}, talking with `, { variable: userVariable }, ". Stay in character."];
    const own = part("system_prompt", "", fallback);
    const character = this.#macros.template(this.#character, this.#path);
    const parts = [
      own === "" ? this.#macros.template("{{original}}", this.#path, fallback) : own,
      part("description"),
      part("personality", `${character}'s personality: `),
      part("scenario", "The scenario: "),
      ...unpairedExamples.map((text) => `An example of how ${character} talks:\n${text}`),
      part("post_history_instructions"),
    ];
    if (this.#text("post_history_instructions").trim() !== "") {
      this.#omit("post_history_instructions", "stand at the end of system, not behind the conversation");
    }
    const text = parts.filter((one) => one !== "").join("\n\n");
    const saysSomething = parseTemplate(text).some((piece) => "text" in piece && piece.text.trim() !== "");
    return saysSomething ? text : `${this.#macros.template("{{original}}", this.#path, fallback)}\n\n${text}`;
  }

  /** Blocks of an example that are no questions and answers in turn go into the prompt as they are. */
  #examples(): { readonly turns: Examples; readonly unpaired: readonly string[] } {
    const path = [...this.#path, "mes_example"];
    const turns: Examples = [];
    const unpaired: string[] = [];
    for (const block of this.#text("mes_example").split(/<START>/i)) {
      if (block.trim() === "") continue;
      const paired = pairedTurns(turnsOf(block, (text) => this.#macros.plain(text, path)) ?? []);
      if (paired !== undefined && paired.length > 0 && turns.length + paired.length <= 128) turns.push(...paired);
      else unpaired.push(this.#macros.template(block, path).trim());
    }
    if (unpaired.length > 0)
      this.#omissions.add(path, "has parts that are not questions and answers in turn: they stand in system");
    return { turns, unpaired: unpaired.filter((text) => text !== "") };
  }

  #tags(): string[] {
    const given = listOf(this.#data["tags"]);
    const fit = given.filter((tag): tag is string => typeof tag === "string" && tag !== "" && tag.length <= 128);
    if (fit.length < given.length || fit.length > 64) {
      this.#omit("tags", "has some that are empty, longer than 128 characters, or beyond the first 64");
    }
    return fit.slice(0, 64);
  }

  #omit(field: string, message: string): void {
    this.#omissions.add([...this.#path, field], message);
  }

  #listRest(): void {
    const version = Number.parseFloat(String(this.#card["spec_version"] ?? "2"));
    if (version > 3) this.#omissions.add("spec_version", "is newer than 3.0: what it added is kept under card only");
    this.#omissions.addRest(this.#data, known, this.#path, "is kept under card only");
    const extensions = objectOf(this.#data["extensions"]) ?? {};
    this.#omissions.addRest(extensions, [extensionName], [...this.#path, "extensions"], "is kept under card only");
    if (this.#path.length > 0) this.#omissions.addRest(this.#card, topLevel, [], "is kept under card only");
  }
}

const variablesIn = (template: string) =>
  parseTemplate(template).flatMap((part) => ("variable" in part ? part.variable : []));

const isV3 = (card: JsonObject) => card["spec"] !== undefined && card["spec"] !== "chara_card_v2";

/** Fields that a persona carries, or that only describe the card. */
const known = [
  ...textsOfV1,
  ...words("system_prompt post_history_instructions creator_notes tags character_book extensions nickname"),
];
/** Many programs write a V1 card beside `data`, for those that know nothing newer. */
const topLevel = [...textsOfV1, "spec", "spec_version", "data"];

const speaker = /^[ \t]*(?:\{\{\s*(user|char|bot)\s*\}\}|<(user|char|bot)>)[ \t]*:[ \t]*/i;

/** @returns undefined where text stands before the first speaker */
function turnsOf(block: string, plain: (text: string) => string): DraftTurn[] | undefined {
  const turns: { role: DraftTurn["role"]; lines: string[] }[] = [];
  for (const line of block.trim().split("\n")) {
    const match = speaker.exec(line);
    if (match !== null) {
      const role = (match[1] ?? match[2])!.toLowerCase() === "user" ? "user" : "assistant";
      turns.push({ role, lines: [line.slice(match[0].length)] });
    } else if (turns.length === 0) return undefined;
    else turns.at(-1)!.lines.push(line);
  }
  return turns.map(({ role, lines }) => ({ role, content: plain(lines.join("\n")).trim() }));
}
