/** Character cards of the shapes that the specifications give, and files that hold them. All texts are our own. */
import { deflateRawSync, deflateSync } from "node:zlib";
import { type PngChunk, plainImage, readChunks, textChunk, writeChunks } from "../../../../src/lib/files/png.ts";

export const v1 = {
  name: "Marla",
  description: "{{char}} keeps the lighthouse at Skerry Point. <USER> is a visitor.",
  personality: "dry, patient, curious about ships",
  scenario: "A storm keeps both inside.",
  first_mes: "Mind the step, {{user}}. The lamp is lit.",
  mes_example:
    "<START>\n{{user}}: Is it lonely here?\n{{char}}: The gulls argue.\nThat is company.\n<START>\n{{char}}: *She trims the wick.*",
};

export const v2 = {
  spec: "chara_card_v2",
  spec_version: "2.0",
  data: {
    ...v1,
    creator_notes: "A lighthouse keeper for quiet evenings.\n\nWorks best with long answers.",
    system_prompt: "{{original}} Write in the present tense.",
    post_history_instructions: "Answer as {{char}} only.",
    alternate_greetings: ["You again.", "Tea?"],
    character_book: {
      name: "Skerry",
      scan_depth: 6,
      token_budget: 400,
      recursive_scanning: true,
      extensions: { weights: [1, 2] },
      entries: [
        {
          keys: ["lamp", "light"],
          content: "The lamp burns whale oil, {{char}} says.",
          extensions: {},
          enabled: true,
          insertion_order: 10,
          name: "Lamp",
          position: "before_char",
        },
        {
          keys: ["wreck"],
          secondary_keys: ["Aurora"],
          selective: true,
          content: "@@depth 2\n@@is_greeting 1\nThe Aurora sank in 1871.",
          extensions: {},
          enabled: false,
          insertion_order: 20,
          case_sensitive: true,
          priority: 3,
        },
        {
          keys: [],
          content: "The island has no trees.",
          extensions: {},
          enabled: true,
          insertion_order: 1,
          constant: true,
        },
      ],
    },
    tags: ["Sea", "calm"],
    creator: "ana",
    character_version: "1.2",
    extensions: { depth_prompt: { depth: 4, prompt: "quiet" }, "other/app": null },
  },
};

export const v3 = {
  spec: "chara_card_v3",
  spec_version: "3.0",
  data: {
    ...v2.data,
    nickname: "Keeper",
    assets: [
      { type: "icon", uri: "embeded://assets/icon/images/main.png", name: "main", ext: "png" },
      { type: "background", uri: "https://example.com/sea.webp", name: "main", ext: "webp" },
    ],
    creator_notes_multilingual: { de: "Eine Leuchtturmwärterin." },
    source: ["https://example.com/marla"],
    group_only_greetings: [],
    creation_date: 1_760_000_000,
    modification_date: 1_760_000_100,
  },
};

export const base64 = (card: unknown) => Buffer.from(JSON.stringify(card)).toString("base64");

type Chunk = Pick<PngChunk, "type" | "data">;

/** An image with these chunks before its end. */
export function image(...extra: Chunk[]): Uint8Array {
  const chunks = readChunks(plainImage(4, 4, [10, 20, 30]));
  return writeChunks([...chunks.slice(0, -1), ...extra, chunks.at(-1)!]);
}

export const cardImage = (card: unknown, keyword = "chara") => image(textChunk(keyword, base64(card)));

export const packedText = (keyword: string, text: string): Chunk => ({
  type: "zTXt",
  data: Buffer.concat([Buffer.from(`${keyword}\0\0`), deflateSync(text)]),
});

export const unicodeText = (keyword: string, text: string, isPacked: boolean): Chunk => ({
  type: "iTXt",
  data: Buffer.concat([
    Buffer.from(`${keyword}\0`),
    Uint8Array.of(isPacked ? 1 : 0, 0),
    Buffer.from("en\0\0"),
    isPacked ? deflateSync(text) : Buffer.from(text),
  ]),
});

export type ZipFile = {
  readonly name: string | Uint8Array;
  readonly content: string | Uint8Array;
  /** What the directory declares in place of the truth. */
  readonly size?: number;
  readonly checksum?: number;
  readonly flags?: number;
  readonly method?: number;
};

/** A zip archive, which may lie. */
export function zip(files: readonly ZipFile[]): Uint8Array {
  const bodies: Uint8Array[] = [];
  const directory: Uint8Array[] = [];
  let offset = 0;
  for (const { name, content, size, checksum, flags = 0, method = 8 } of files) {
    const bytes = Buffer.from(content as Uint8Array);
    const nameBytes = Buffer.from(name as Uint8Array);
    const packed = method === 8 ? deflateRawSync(bytes) : bytes;
    const fields = Buffer.alloc(26);
    fields.writeUInt16LE(20, 0);
    fields.writeUInt16LE(flags, 2);
    fields.writeUInt16LE(method, 4);
    fields.writeUInt32LE(checksum ?? Number(Bun.hash.crc32(bytes)), 10);
    fields.writeUInt32LE(packed.length, 14);
    fields.writeUInt32LE(size ?? bytes.length, 18);
    fields.writeUInt16LE(nameBytes.length, 22);
    const body = Buffer.concat([Buffer.from("PK\x03\x04"), fields, nameBytes, packed]);
    const tail = Buffer.alloc(14);
    tail.writeUInt32LE(offset, 10);
    directory.push(Buffer.concat([Buffer.from("PK\x01\x02\x14\x00", "latin1"), fields, tail, nameBytes]));
    bodies.push(body);
    offset += body.length;
  }
  const list = Buffer.concat(directory);
  const end = Buffer.alloc(18);
  end.writeUInt16LE(files.length, 4);
  end.writeUInt16LE(files.length, 6);
  end.writeUInt32LE(list.length, 8);
  end.writeUInt32LE(offset, 12);
  return Buffer.concat([...bodies, list, Buffer.from("PK\x05\x06"), end]);
}

/**
 * The same archive with numbers of ZIP64, as programs write that don't know sizes before.
 * @param fieldLength what each entry's extra field declares: 24 are needed
 */
export function wideZip(archive: Uint8Array, isWideEnd: boolean, fieldLength = 24): Uint8Array {
  const bytes = Buffer.from(archive);
  const end = bytes.length - 22;
  const start = bytes.readUInt32LE(end + 16);
  const parts: Buffer[] = [];
  for (let at = start; at < end; ) {
    const next = at + 46 + bytes.readUInt16LE(at + 28);
    const head = Buffer.from(bytes.subarray(at, next));
    const field = Buffer.alloc(4 + 24);
    field.writeUInt16LE(1, 0);
    field.writeUInt16LE(fieldLength, 2);
    for (const [number, place] of [24, 20, 42].entries()) {
      field.writeBigUInt64LE(BigInt(head.readUInt32LE(place)), 4 + number * 8);
      head.writeUInt32LE(0xffffffff, place);
    }
    head.writeUInt16LE(field.length, 30);
    parts.push(head, field);
    at = next;
  }
  const directory = Buffer.concat(parts);
  const last = Buffer.from(bytes.subarray(end));
  last.writeUInt32LE(directory.length, 12);
  if (!isWideEnd) return Buffer.concat([bytes.subarray(0, start), directory, last]);
  const wide = Buffer.alloc(56);
  wide.write("PK\x06\x06", "latin1");
  wide.writeBigUInt64LE(44n, 4);
  for (const at of [24, 32]) wide.writeBigUInt64LE(BigInt(last.readUInt16LE(10)), at);
  wide.writeBigUInt64LE(BigInt(directory.length), 40);
  wide.writeBigUInt64LE(BigInt(start), 48);
  const locator = Buffer.alloc(20);
  locator.write("PK\x06\x07", "latin1");
  locator.writeBigUInt64LE(BigInt(start + directory.length), 8);
  locator.writeUInt32LE(1, 16);
  last.fill(0xff, 8, 20);
  return Buffer.concat([bytes.subarray(0, start), directory, wide, locator, last]);
}
