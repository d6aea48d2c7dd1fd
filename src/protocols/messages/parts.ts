/** Blocks of a user's turn or of a tool's result, as parts of the inner form. */
import type { ImagePart, TextPart, UserPart } from "../chat/schema.ts";
import type { NativeOnly } from "../native-only.ts";
import type { DocumentBlock, ImageBlock, SearchResultBlock, TextBlock } from "./schema.ts";

/** The prompt-cache marker, which stands in the inner form as it stands here. */
export function marker({ cache_control }: { cache_control?: unknown }): { cache_control?: unknown } {
  return cache_control == null ? {} : { cache_control };
}

export function textPart(block: TextBlock): TextPart {
  return { type: "text", text: block.text, ...marker(block) };
}

/** @param path the block's, for what has no translation */
export function imagePart(block: ImageBlock, path: string, nativeOnly: NativeOnly): UserPart[] {
  const { source } = block;
  if (source.type === "file") return [filePart(source.file_id, path, nativeOnly)];
  const url = source.type === "url" ? source.url : `data:${source.media_type};base64,${source.data}`;
  return [{ type: "image_url", image_url: { url }, ...marker(block) } as ImagePart];
}

/** Files lie with the provider they were uploaded to. */
function filePart(file_id: string, path: string, nativeOnly: NativeOnly): UserPart {
  nativeOnly.part(`${path}.source.file_id`, "files of Anthropic's Files API are known to Anthropic alone.");
  return { type: "file", file: { file_id } };
}

/**
 * A PDF is a file; a text is a text, with its title and context before it, since few upstreams take files of text.
 * @param path the block's, for what has no translation
 */
export function documentParts(block: DocumentBlock, path: string, nativeOnly: NativeOnly): UserPart[] {
  const { source, title, context } = block;
  const about = [...(title ? [title] : []), ...(context ? [context] : [])].join("\n");
  const opening: TextPart[] = about === "" ? [] : [{ type: "text", text: about }];
  switch (source.type) {
    case "file":
      return [filePart(source.file_id, path, nativeOnly)];
    case "text":
      return [...opening, { type: "text", text: source.data, ...marker(block) } as TextPart];
    case "content":
      return [...opening, ...contentParts(source.content, path, nativeOnly)];
    default: {
      const file_data = source.type === "url" ? source.url : `data:${source.media_type};base64,${source.data}`;
      const file = { filename: title || "document.pdf", file_data };
      return [
        ...(context ? [{ type: "text" as const, text: context }] : []),
        { type: "file", file, ...marker(block) } as UserPart,
      ];
    }
  }
}

type DocumentContent = Extract<DocumentBlock["source"], { type: "content" }>["content"];

function contentParts(content: DocumentContent, path: string, nativeOnly: NativeOnly): UserPart[] {
  if (typeof content === "string") return [{ type: "text", text: content }];
  return content.flatMap((block, at) =>
    block.type === "text" ? [textPart(block)] : imagePart(block, `${path}.source.content[${at}]`, nativeOnly),
  );
}

/** https://platform.claude.com/docs/en/build-with-claude/search-results */
export function searchResultPart(block: SearchResultBlock): TextPart {
  const texts = block.content.map(({ text }) => text);
  return { type: "text", text: [block.title, block.source, ...texts].join("\n"), ...marker(block) } as TextPart;
}
