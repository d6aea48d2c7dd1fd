/** Character cards: in, out and back. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { chunkTextOf, keywordOf, plainImage, readChunks, textChunk } from "../../../../src/lib/files/png.ts";
import { exporters } from "../../../../src/personas/exchange/exporters/all.ts";
import { importFile } from "../../../../src/personas/exchange/importers/all.ts";
import type { Imported } from "../../../../src/personas/exchange/importers/draft.ts";
import { ImportError, ImportedFile } from "../../../../src/personas/exchange/importers/source.ts";
import { personaYaml } from "../../../../src/personas/file/persona-yaml.ts";
import type { PersonaContent } from "../../../../src/personas/file/schema.ts";
import { contentOf, parsePersona } from "../../../../src/personas/persona.ts";
import { runs } from "../../../helpers/long-form.ts";
import { base64, cardImage, image, packedText, unicodeText, v1, v2, v3, wideZip, zip } from "./card-examples.ts";

const read = (content: string | Uint8Array | object, name = "card.json"): Imported => {
  const bytes =
    content instanceof Uint8Array
      ? content
      : Buffer.from(typeof content === "string" ? content : JSON.stringify(content));
  const { format, personas } = importFile(new ImportedFile(name, bytes));
  expect(format).toBe("card");
  expect(personas).toHaveLength(1);
  return personas[0]!;
};

/** Through the file that is written: what comes back has passed the checker. */
function stored({ draft }: Imported): PersonaContent {
  const content = { description: "A card.", ...draft, model: "builtin/eliza" } as PersonaContent;
  const parsed = parsePersona(personaYaml(content), "acme/card.yaml", "acme/card");
  if ("errors" in parsed) throw new Error(JSON.stringify(parsed.errors));
  return JSON.parse(contentOf(parsed.persona));
}

const write = (content: PersonaContent, format: string, avatar?: Uint8Array) =>
  exporters.find((one) => one.format === format)!.write({ id: "acme/card", content, ...(avatar && { avatar }) });

const cardIn = (content: PersonaContent, format: string) => JSON.parse(write(content, format).content as string);

const refusal = (content: Uint8Array | string, name = "card.json") => {
  try {
    importFile(new ImportedFile(name, Buffer.from(content as Uint8Array)));
  } catch (error) {
    if (!(error instanceof ImportError)) throw error;
    return `${error.place}: ${error.message}`;
  }
  return "none";
};

describe("a card of V2", () => {
  const { name, draft, omitted } = read(v2);

  test("is a persona whose prompt has its parts in order", () => {
    expect(name).toBe("Marla");
    expect(draft.description).toBe("A lighthouse keeper for quiet evenings.");
    expect(draft.tags).toEqual(["Sea", "calm"]);
    expect(draft.greeting).toBe("Mind the step, User. The lamp is lit.");
    expect(draft.system).toBe(
      [
        "You are Marla, talking with {{user}}. Stay in character. Write in the present tense.",
        "Marla keeps the lighthouse at Skerry Point. {{user}} is a visitor.",
        "Marla's personality: dry, patient, curious about ships",
        "The scenario: A storm keeps both inside.",
        "An example of how Marla talks:\nMarla: *She trims the wick.*",
        "Answer as Marla only.",
      ].join("\n\n"),
    );
    expect(draft.variables).toEqual({
      user: { description: "The name of who talks to the character.", default: "User" },
    });
    expect(draft.examples).toEqual([
      { role: "user", content: "Is it lonely here?" },
      { role: "assistant", content: "The gulls argue.\nThat is company." },
    ]);
  });

  test("keeps its book as a lorebook", () => {
    expect(draft.lorebook as unknown).toEqual({
      entries: [
        {
          name: "Lamp",
          keys: ["lamp", "light"],
          content: "The lamp burns whale oil, Marla says.",
          order: 10,
          position: "before_system",
        },
        {
          keys: ["wreck"],
          secondary_keys: ["Aurora"],
          content: "The Aurora sank in 1871.",
          enabled: false,
          case_sensitive: true,
          order: 20,
          priority: 3,
          depth: 2,
        },
        { content: "The island has no trees.", constant: true, order: 1 },
      ],
      scan_depth: 6,
      token_budget: 400,
      recursive_scanning: true,
    });
  });

  test("lists what is not carried over, with its place", () => {
    expect(omitted.map(({ place, message }) => `${place}: ${message}`).sort()).toEqual([
      "data.alternate_greetings: is kept under card only",
      "data.character_book.entries[1].content: @@is_greeting is not known here",
      "data.character_version: is kept under card only",
      "data.creator: is kept under card only",
      "data.extensions.depth_prompt: is kept under card only",
      "data.mes_example: has parts that are not questions and answers in turn: they stand in system",
      "data.post_history_instructions: stand at the end of system, not behind the conversation",
    ]);
  });

  test("comes back as it was", () => {
    expect(cardIn(stored(read(v2)), "card-v2")).toEqual(v2);
    expect(cardIn(stored(read(v3)), "card-v3")).toEqual(v3);
  });

  test("comes back with what was changed, and nothing else", () => {
    const content = { ...stored(read(v2)), greeting: "Hm?", tags: ["sea"], defaults: { temperature: 0.7 } };
    const data = { ...v2.data, first_mes: "Hm?", tags: ["sea"] };
    const extensions = { ...v2.data.extensions, troupe: { defaults: { temperature: 0.7 } } };
    expect(cardIn(content, "card-v2")).toEqual({ ...v2, data: { ...data, extensions } });
    expect(read(cardIn(content, "card-v2")).draft).toMatchObject({ greeting: "Hm?", defaults: { temperature: 0.7 } });
  });

  test("has its new prompt in place of the old one's parts", () => {
    const { data } = cardIn({ ...stored(read(v2)), system: "Be {{user}}'s friend. \\{{x}}" }, "card-v2");
    expect(data.system_prompt).toBe("Be {{user}}'s friend. {{x}}");
    expect([data.description, data.personality, data.scenario, data.post_history_instructions]).toEqual([
      "",
      "",
      "",
      "",
    ]);
  });

  test("is a card of V3 too, with what V3 requires", () => {
    expect(cardIn(stored(read(v2)), "card-v3")).toEqual({
      spec: "chara_card_v3",
      spec_version: "3.0",
      data: { ...v2.data, group_only_greetings: [] },
    });
  });
});

describe("other versions", () => {
  test("V1 is read, and written as V2", () => {
    expect(read(v1).draft.system).toStartWith("You are Marla, talking with {{user}}.");
    expect(cardIn(stored(read(v1)), "card-v2")).toMatchObject({ spec: "chara_card_v2", data: v1 });
  });

  test("V3's nickname stands for {{char}}", () => {
    const { draft, omitted } = read(v3);
    expect(draft.system).toStartWith("You are Keeper, talking with {{user}}.");
    expect(omitted.map(({ place }) => place)).toContain("data.assets");
  });

  test("a newer one is read, and said to be newer", () => {
    const { omitted } = read({ ...v3, spec_version: "3.1" });
    expect(omitted).toContainEqual({ place: "spec_version", message: expect.stringContaining("newer") });
  });

  test("V1 fields beside the data follow a change", () => {
    const both = { ...v2, ...v1, create_date: "2024-1-1" };
    const content = stored(read(both));
    expect(cardIn(content, "card-v2")).toEqual(both);
    expect(cardIn({ ...content, greeting: "Oh." }, "card-v2")).toMatchObject({
      first_mes: "Oh.",
      create_date: "2024-1-1",
    });
  });
});

describe("macros", () => {
  const systemOf = (description: string) =>
    read({ ...v1, description, personality: "", scenario: "", mes_example: "" });
  const told = (description: string) => systemOf(description).draft.system.split("\n\n").slice(1).join("\n\n");

  test.each([
    ["{{CHAR}} <Bot> {{ user }} <USER>", "Marla Marla {{user}} {{user}}"],
    ["a{{// hidden}}b{{comment: c}}d{{hidden_key:e}}f", "abdf"],
    ["{{reverse:olleH}}", "Hello"],
    ["{{random:red\\, dark,blue}} {{pick::one,two}}", "red, dark one"],
    ["{{roll:d6}} {{> secret}} {{time}}", "\\{{roll:d6}} \\{{> secret}} \\{{time}}"],
    ["{{random::a::b}} {{pick::a, b::c}} {{random:x::y}}", "a a, b x"],
    [
      "{{random:{{char}},b}} {{random::{{user}}, dear::x}} {{pick: {{random:{{char}},b}} , c}}",
      "Marla {{user}}, dear Marla",
    ],
    ["a{{noop}}b{{space::2}}c{{newline}}d\n\n{{trim}}\ne", "ab  c\nde"],
    ["{{reverse::{{user}}!}} {{random:a", "!{{user}} \\{{random:a"],
    ["{{{user}}}", '{{"{"}}{{user}}}'],
    ["{{", "\\{{"],
  ])("%s", (text, system) => {
    expect(told(text)).toBe(system);
  });

  test("those that can't be replaced are listed", () => {
    expect(systemOf("{{random:a,b}} {{roll:6}}").omitted).toEqual([
      { place: "description", message: "{{random}} takes its first choice, 'a'" },
      { place: "description", message: "{{roll:6}} is not replaced: it stands there as text" },
    ]);
  });

  test("script and HTML stay text", () => {
    expect(told("<script>alert(1)</script> <img onerror=x>")).toBe("<script>alert(1)</script> <img onerror=x>");
  });
});

describe("a lorebook that SillyTavern wrote", () => {
  /** As it writes every entry: `use_regex` always, and its own fields under extensions. */
  const entry = (fields: object, extensions: object = {}) => ({
    ...{ keys: ["lamp"], secondary_keys: [], content: "x", constant: false, selective: true, insertion_order: 100 },
    ...{ enabled: true, position: "after_char", use_regex: true, comment: "", id: 0 },
    ...fields,
    extensions: {
      ...{ position: 1, exclude_recursion: false, display_index: 0, probability: 100, useProbability: true, depth: 4 },
      ...{ selectiveLogic: 0, outlet_name: "", group: "", group_override: false, group_weight: 100, role: 0 },
      ...{ prevent_recursion: false, delay_until_recursion: false, scan_depth: null, match_whole_words: null },
      ...{ case_sensitive: null, automation_id: "", vectorized: false, sticky: 0, cooldown: 0, delay: 0 },
      ...{ match_scenario: false, triggers: [], ignore_budget: false, use_group_scoring: false },
      ...extensions,
    },
  });
  const bookOf = (...entries: object[]) => {
    const { draft, omitted } = read({ ...v2, data: { ...v2.data, character_book: { name: "b", entries } } });
    return {
      book: draft.lorebook as { entries: object[] },
      omitted: omitted
        .filter(({ place }) => place.includes("character_book"))
        .map(({ place, message }) => `${place.replace("data.character_book.", "")}: ${message}`),
      draft,
    };
  };

  test("has plain keys, and its program's own defaults", () => {
    const { book, omitted } = bookOf(entry({}), entry({ keys: ["{{char}}", "a/b/c", "(oil)"] }));
    expect(book as object).toEqual({
      entries: [
        { keys: ["lamp"], content: "x", whole_words: true, order: 100, position: "after_system" },
        { keys: ["Marla", "a/b/c", "(oil)"], content: "x", whole_words: true, order: 100, position: "after_system" },
      ],
      scan_depth: 2,
      recursive_scanning: true,
    });
    expect(omitted).toEqual([]);
  });

  test("leaves out patterns between slashes by name, and the entry where nothing else is left", () => {
    const { book, omitted } = bookOf(
      entry({ keys: ["/lamps?/i"] }),
      entry({ keys: ["/lamps?/i", "light"], secondary_keys: ["/x/", "y"] }),
    );
    expect(book.entries).toMatchObject([{ keys: ["light"], secondary_keys: ["y"] }]);
    expect(omitted).toEqual([
      "entries[0].keys: are regular expressions: the entry is left out",
      "entries[1].keys: has regular expressions, which are left out",
      "entries[1].secondary_keys: has regular expressions, which are left out",
    ]);
  });

  test("keeps what its extensions say", () => {
    const { book, omitted } = bookOf(
      ...[1, 2, 3].map((selectiveLogic) => entry({ secondary_keys: ["oil"] }, { selectiveLogic })),
      entry({ case_sensitive: true }, { scan_depth: 7, match_whole_words: false, position: 0 }),
      entry({}, { case_sensitive: true, position: 4, depth: 2, role: 1 }),
      entry({}, { exclude_recursion: true, prevent_recursion: true, delay_until_recursion: 2 }),
      entry({}, { probability: 0 }),
    );
    expect(book.entries).toMatchObject([
      { secondary_logic: "not_all" },
      { secondary_logic: "not_any" },
      { secondary_logic: "all" },
      { scan_depth: 7, position: "before_system" },
      { case_sensitive: true, depth: 2, whole_words: true },
      { exclude_recursion: true, prevent_recursion: true, delay_until_recursion: true },
      { enabled: false },
    ]);
    expect(Object.keys(book.entries[3]!)).not.toContain("whole_words");
    expect(Object.keys(book.entries[4]!)).not.toContain("position");
    expect(omitted).toEqual(["entries[6].extensions.probability: is 0: the entry is turned off"]);
  });

  test("lists what a persona can't say, once for all entries", () => {
    const { book, omitted } = bookOf(
      entry({}, { probability: 30, sticky: 3, cooldown: 2, delay: 1, group: "weather" }),
      entry({}, { probability: 40, position: 4, role: 2, match_scenario: true, vectorized: true }),
      entry({}, { probability: 40, useProbability: false, position: 5, triggers: ["continue"] }),
      entry({}, { position: 7, outlet_name: "o" }),
    );
    expect(book.entries).toHaveLength(3);
    expect(omitted).toEqual([
      "entries[0].extensions.probability: is 30 %: the entry comes whenever it is mentioned, and so in 1 more entry",
      "entries[0].extensions.group: 'weather' lets one of its entries come there, and all here",
      "entries[0].extensions.sticky: counts messages there, and has no place here",
      "entries[0].extensions.cooldown: counts messages there, and has no place here",
      "entries[0].extensions.delay: counts messages there, and has no place here",
      "entries[1].extensions.role: is a message of its own there, and stands in the user's here",
      "entries[1].extensions.vectorized: is kept under card only",
      "entries[1].extensions.match_scenario: is kept under card only",
      "entries[2].extensions.position: stands beside examples there, and after the system text here",
      "entries[2].extensions.triggers: is kept under card only",
      "entries[3].extensions.outlet_name: is kept under card only",
      "entries[3].extensions.position: is an outlet's, which no text here names: the entry is left out",
    ]);
  });

  test("keeps every entry that was not changed, as the card has it", () => {
    const entries = [entry({ id: 5 }, { sticky: 3 }), entry({ keys: ["/x/"] }), entry({ content: "old" })];
    const { draft } = bookOf(...entries);
    const content = stored({ name: "", draft, omitted: [] });
    expect(cardIn(content, "card-v2").data.character_book.entries).toEqual(entries);
    const book = structuredClone(content.lorebook) as { entries: Record<string, unknown>[] };
    book.entries[1] = { keys: ["lamp"], secondary_keys: ["a"], secondary_logic: "not_any", content: "new" };
    const { entries: written } = cardIn({ ...content, lorebook: book } as PersonaContent, "card-v2").data
      .character_book;
    expect(written).toMatchObject([
      entries[0]!,
      { content: "new", extensions: { selectiveLogic: 2 }, use_regex: false },
      entries[1]!,
    ]);
  });
});

describe("a lorebook of another program", () => {
  test("has patterns where it says so, and what looks like none is text", () => {
    const one = { content: "x", extensions: {}, enabled: true, insertion_order: 1, use_regex: true };
    const entries = [
      { ...one, keys: ["lamp post", "lamps?"] },
      { ...one, keys: ["light.*"], sticky_turns: 3 },
      { ...one, keys: ["a"], content: "@@scan_depth 9\ny" },
    ];
    const { draft, omitted } = read({ ...v2, data: { ...v2.data, character_book: { entries } } });
    expect(draft.lorebook).toMatchObject({ entries: [{ keys: ["lamp post"] }, { keys: ["a"], scan_depth: 9 }] });
    expect(omitted.map(({ place, message }) => `${place}: ${message}`)).toEqual(
      expect.arrayContaining([
        "data.character_book.entries[0].keys: has regular expressions, which are left out",
        "data.character_book.entries[1].keys: are regular expressions: the entry is left out",
        "data.character_book.entries[1].sticky_turns: is kept under card only",
      ]),
    );
  });
});

describe("a card in an image", () => {
  test.each(["card-v2-png", "card-v3-png"])("%s comes back, with its picture", (format) => {
    const version = format.slice(0, 7);
    const card = version === "card-v2" ? v2 : v3;
    const imported = read(cardImage(card, version === "card-v2" ? "chara" : "ccv3"), "marla.png");
    expect(imported.avatar).toEqual({ extension: "png", bytes: image() });
    const written = write({ ...stored(imported), avatar: "marla.png" }, format, imported.avatar!.bytes)
      .content as Uint8Array;
    const again = read(written, "again.png");
    expect(again.avatar).toEqual(imported.avatar!);
    expect(again.draft).toEqual(imported.draft);
    expect(again.draft.card).toEqual(card);
  });

  test("the newer text wins, and the older one says what it is", () => {
    const written = write(stored(read(v3)), "card-v3-png").content as Uint8Array;
    const texts = readChunks(written).flatMap((chunk) => (keywordOf(chunk) === "chara" ? chunkTextOf(chunk, 1e6) : []));
    const older = JSON.parse(Buffer.from(texts[0]!, "base64").toString());
    expect(older.spec).toBe("chara_card_v2");
    expect(older.data.creator_notes).toStartWith("This is the V2 form of a Character Card V3");
    expect(read(image(textChunk("ccv3", base64(v3)), textChunk("chara", base64(v1)))).draft.card).toEqual(v3);
  });

  test("a persona without an avatar gets a plain picture", () => {
    const written = write(stored(read(v2)), "card-v2-png").content as Uint8Array;
    expect(readChunks(written).map(({ type }) => type)).toEqual(["IHDR", "IDAT", "tEXt", "IEND"]);
    expect(
      write({ ...stored(read(v2)), avatar: "marla.webp" }, "card-v2-png", Buffer.from("RIFF")).omitted,
    ).toContainEqual({
      place: "avatar",
      message: "is no PNG: the picture is a plain one",
    });
  });

  test("packed and Unicode texts are read too", () => {
    for (const chunk of [
      packedText("chara", base64(v2)),
      unicodeText("chara", base64(v2), true),
      unicodeText("chara", base64(v2), false),
    ])
      expect(read(image(chunk)).draft.card).toEqual(v2);
  });

  test("assets in it, and bytes behind it, are listed", () => {
    const bytes = Buffer.concat([
      image(textChunk("chara", base64(v2)), textChunk("chara-ext-asset_1", "AAAA")),
      Buffer.from("tail"),
    ]);
    const { omitted, avatar } = read(bytes);
    expect(omitted.slice(-2).map(({ message }) => message)).toEqual([
      "is an asset, which has no place in a persona",
      "has 4 bytes behind the image",
    ]);
    expect(avatar!.bytes).toEqual(image());
  });
});

describe("what another version has no place for", () => {
  test("a nickname is listed where V2 is written", () => {
    const { content, omitted } = write(stored(read(v3)), "card-v2");
    expect(omitted).toContainEqual({
      place: "card.data.nickname",
      message: "is of V3: {{char}} is 'Marla' for programs of V2, not 'Keeper'",
    });
    expect(JSON.parse(content as string).spec).toBe("chara_card_v2");
    expect(write(stored(read(v3)), "card-v3").omitted.map(({ place }) => place)).toEqual(["model"]);
  });

  test("an icon that is not in the file is listed", () => {
    const assets = [{ type: "icon", uri: "__asset:3", name: "main", ext: "png" }];
    const { omitted } = read({ ...v3, data: { ...v3.data, assets } });
    expect(omitted).toContainEqual({
      place: "data.assets",
      message: "names a picture that is not in the file: __asset:3",
    });
  });
});

describe("a charx archive", () => {
  const picture = plainImage(2, 2, [1, 2, 3]);
  const files = [
    { name: "card.json", content: JSON.stringify(v3) },
    { name: "assets/icon/images/main.png", content: picture },
    { name: "assets/other/x.lua", content: "os.exit()" },
  ];

  test("has its card, and the icon as the avatar; the rest is listed", () => {
    const { avatar, draft, omitted } = read(zip(files), "marla.charx");
    expect(avatar).toEqual({ extension: "png", bytes: picture });
    expect(draft.card).toEqual(v3);
    expect(omitted.at(-1)).toEqual({
      place: "assets/other/x.lua",
      message: "is a file of 9 bytes, which has no place in a persona",
    });
  });

  test.each(["embedded://assets/icon/images/main.png", "__asset:assets/icon/images/main.png"])(
    "may name its icon %s",
    (uri) => {
      const card = { ...v3, data: { ...v3.data, assets: [{ type: "icon", uri, name: "main", ext: "png" }] } };
      const { avatar } = read(zip([{ name: "card.json", content: JSON.stringify(card) }, files[1]!]), "marla.charx");
      expect(avatar).toEqual({ extension: "png", bytes: picture });
    },
  );

  test("may have the wide numbers of ZIP64, in entries and in its end", () => {
    for (const isWideEnd of [false, true]) {
      const { avatar, draft } = read(wideZip(zip(files), isWideEnd), "marla.charx");
      expect(avatar).toEqual({ extension: "png", bytes: picture });
      expect(draft.card).toEqual(v3);
    }
    expect(refusal(wideZip(zip(files), true).subarray(0, -30), "marla.charx")).toContain("no directory");
    expect(refusal(wideZip(zip(files), false, 8), "marla.charx")).toContain("its directory is damaged");
  });

  test("is read behind a picture too", () => {
    const disguised = Buffer.concat([Uint8Array.of(0xff, 0xd8, 0xff, 0xe0, 1, 2, 3), zip(files)]);
    expect(read(disguised, "marla.jpeg").draft.card).toEqual(v3);
  });
});

describe("hostile files are refused, with the place", () => {
  const bomb = Buffer.alloc(64 * 1024 * 1024);
  const cardFile = { name: "card.json", content: JSON.stringify(v3) };
  const badChecksum = () => {
    const bytes = Buffer.from(cardImage(v2));
    bytes[bytes.length - 20] = bytes[bytes.length - 20]! ^ 1;
    return bytes;
  };
  const hugeChunk = () => {
    const bytes = Buffer.from(cardImage(v2));
    bytes.writeUInt32BE(0x7fff_ffff, 33);
    return bytes;
  };
  const icon = { type: "icon", uri: "embeded://a.png", name: "main", ext: "png" };
  const withIcon = { name: "card.json", content: JSON.stringify({ ...v3, data: { ...v3.data, assets: [icon] } }) };
  const cases: [string, () => Uint8Array | string, string][] = [
    ["an empty file", () => "", ": is empty"],
    ["an image without a card", () => image(), ": is an image without a card: it has no text named 'chara' or 'ccv3'"],
    ["a wrong checksum", badChecksum, ": byte 61 (tEXt): it does not match its checksum"],
    ["a chunk beyond the end", hugeChunk, ": byte 33 (IDAT): it declares 2147483647 bytes, beyond the end"],
    ["an image that is cut off", () => image().subarray(0, 40), ": it ends at byte 33 without IEND"],
    ["a text bomb", () => image(packedText("chara", bomb.toString("latin1"))), "larger than"],
    ["no base64", () => image(textChunk("chara", "{no base64}")), "byte 61 (tEXt): is not base64"],
    [
      "no JSON in it",
      () => image(textChunk("chara", Buffer.from("{oops").toString("base64"))),
      "byte 61 (tEXt): is not JSON",
    ],
    ["another JSON in it", () => image(textChunk("chara", base64([1]))), "byte 61 (tEXt): is no character card"],
    ["a zip bomb", () => zip([{ name: "card.json", content: bomb }]), "card.json is larger than 16777216 bytes"],
    ["one that declares less", () => zip([{ name: "card.json", content: bomb, size: 100 }]), "larger than it declares"],
    [
      "one that declares more",
      () => zip([{ ...cardFile, size: 9_999_999 }]),
      "does not have the size that it declares",
    ],
    ["a zip's wrong checksum", () => zip([{ ...cardFile, checksum: 1 }]), "does not match its checksum"],
    ["a picture bomb", () => zip([withIcon, { name: "a.png", content: bomb }]), "a.png is larger than 33554432 bytes"],
    [
      "a path that escapes",
      () => zip([cardFile, { name: "../../etc/passwd", content: "x" }]),
      'leads elsewhere: "../../etc/passwd"',
    ],
    ["an absolute path", () => zip([cardFile, { name: "/etc/passwd", content: "x" }]), "leads elsewhere"],
    ["a Windows path", () => zip([cardFile, { name: "C:\\x", content: "x" }]), "leads elsewhere"],
    ["a control character in a name", () => zip([cardFile, { name: "a\u001b[2Jb", content: "x" }]), "leads elsewhere"],
    ["a name twice", () => zip([cardFile, cardFile]), "card.json is in it twice"],
    ["a name that is not UTF-8", () => zip([{ name: Uint8Array.of(0xff, 0xfe), content: "x" }]), "name is not UTF-8"],
    ["an encrypted entry", () => zip([{ ...cardFile, flags: 1 }]), "card.json is encrypted"],
    ["an unknown method", () => zip([{ ...cardFile, method: 12 }]), "a method that is not read here (12)"],
    ["an archive without a card", () => zip([{ name: "x", content: "" }]), "an archive without card.json"],
    ["half an archive", () => zip([cardFile]).subarray(0, 200), "cut off"],
    ["deep JSON", () => `{"spec":"chara_card_v2","data":${"[".repeat(100_000)}`, ": is nested too deeply"],
    ["JSON that ends", () => '{"spec":"chara_card_v2"', ": is not JSON"],
    ["invalid UTF-8", () => Buffer.from([...Buffer.from('{\n"name":"'), 0xff, 0x22, 0x7d]), "line 2: is not UTF-8"],
    [
      "a number of many digits",
      () => '{"name":"a","description":"","scenario":"","first_mes":"","id":12345678901234567890}',
      "id: is a number that would lose digits",
    ],
    [
      "a name that YAML merges by",
      () => '{"name":"a","description":"","scenario":"","first_mes":"","x":{"<<":1}}',
      "<<: is a name that YAML",
    ],
    ["no name", () => JSON.stringify({ ...v2, data: { ...v2.data, name: " " } }), "data.name: is missing"],
    ["a name that is no text", () => JSON.stringify({ ...v2, data: { ...v2.data, name: 7 } }), "data.name: is missing"],
    [
      "a description that is no text",
      () => JSON.stringify({ ...v2, data: { ...v2.data, description: {} } }),
      "data.description: must be text",
    ],
    ["no data", () => JSON.stringify({ spec: "chara_card_v3" }), "data: is missing"],
    ["a lorebook alone", () => JSON.stringify({ spec: "lorebook_v3", data: {} }), "spec: is a lorebook alone"],
  ];
  test.each(cases)("%s", (_, make, message) => {
    expect(refusal(make())).toContain(message);
  });

  test("prototypes stay as they are", () => {
    const text = JSON.stringify(v2).replace(
      '"depth_prompt"',
      '"__proto__":{"polluted":1},"constructor":{"x":1},"depth_prompt"',
    );
    const content = stored(read(text));
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
    expect(JSON.stringify(cardIn(content, "card-v2"))).toBe(JSON.stringify(JSON.parse(text)));
  });
});

/** Texts that hold macros, markers and what YAML and templates take for their own. */
const words = fc.oneof(
  fc.constantFrom(
    "{{char}}",
    "{{user}}",
    "<START>",
    "\n{{user}}: ",
    "\n{{char}}: ",
    "\\{{",
    "{{",
    "}}",
    "{",
    "{{> x}}",
    "{{original}}",
  ),
  fc.constantFrom(
    "{{random:a,b}}",
    "<script>",
    "---\n",
    "# ",
    "\t",
    "\r\n",
    "  \n",
    "\u0000",
    "\u2028",
    ": ",
    "é😀",
    "\\",
  ),
  fc.string({ unit: "grapheme", maxLength: 20 }),
);
const text = fc.array(words, { maxLength: 12 }).map((all) => all.join(""));
const extensions = fc.dictionary(
  fc.string({ maxLength: 10 }).filter((key) => key !== "<<"),
  fc.jsonValue({ maxDepth: 3 }).filter((value) => !/\d{16,}(?!\.)|e\+/.test(JSON.stringify(value))),
);
const entry = fc.record(
  {
    keys: fc.array(text, { maxLength: 3 }),
    content: text,
    extensions,
    enabled: fc.boolean(),
    insertion_order: fc.integer({ min: -1000, max: 1000 }),
    use_regex: fc.boolean(),
    constant: fc.boolean(),
    selective: fc.boolean(),
    secondary_keys: fc.array(text, { maxLength: 2 }),
    position: fc.constantFrom("before_char", "after_char"),
    case_sensitive: fc.boolean(),
    name: text,
    id: fc.integer({ min: 0, max: 9 }),
  },
  { requiredKeys: ["keys", "content", "extensions", "enabled", "insertion_order"] },
);
const texts = {
  ...{ description: text, personality: text, scenario: text, first_mes: text, mes_example: text },
  ...{
    creator_notes: text,
    system_prompt: text,
    post_history_instructions: text,
    creator: text,
    character_version: text,
  },
};
const data = fc.record(
  {
    name: fc.string({ unit: "grapheme", minLength: 1, maxLength: 20 }).filter((name) => name.trim() !== ""),
    ...texts,
    alternate_greetings: fc.array(text, { maxLength: 2 }),
    tags: fc.array(text, { maxLength: 4 }),
    extensions,
    group_only_greetings: fc.array(text, { maxLength: 1 }),
    character_book: fc.record({ extensions, entries: fc.array(entry, { maxLength: 3 }), scan_depth: fc.integer() }),
    nickname: text,
  },
  {
    requiredKeys: [
      "name",
      ...(Object.keys(texts) as (keyof typeof texts)[]),
      "alternate_greetings",
      "tags",
      "extensions",
      "group_only_greetings",
    ],
  },
);

describe("any card", () => {
  test.each(["v2", "v3"])("of %s passes the checker and comes back as it was, in JSON and in an image", (version) => {
    fc.assert(
      fc.property(data, (value) => {
        const card = JSON.parse(
          JSON.stringify({
            spec: `chara_card_${version}`,
            spec_version: version === "v2" ? "2.0" : "3.0",
            data: value,
          }),
        );
        const content = stored(read(card));
        expect(cardIn(content, `card-${version}`)).toEqual(card);
        const again = read(write(content, `card-${version}-png`).content as Uint8Array, "x.png");
        expect(again.draft.card).toEqual(card);
      }),
      { numRuns: runs(150) },
    );
  });

  test("bytes that were changed at random are read or refused, and nothing else", () => {
    const originals = [
      cardImage(v2),
      zip([{ name: "card.json", content: JSON.stringify(v3) }]),
      Buffer.from(JSON.stringify(v2)),
    ];
    fc.assert(
      fc.property(
        fc.constantFrom(...originals),
        fc.array(fc.tuple(fc.nat(), fc.nat(255)), { minLength: 1, maxLength: 6 }),
        fc.nat(),
        (original, changes, length) => {
          const bytes = Buffer.from(original);
          for (const [at, byte] of changes) bytes[at % bytes.length] = byte;
          const cut = length % 3 === 0 ? bytes.subarray(0, length % bytes.length) : bytes;
          expect(refusal(cut)).toBeString();
        },
      ),
      { numRuns: runs(1500) },
    );
  });
});
