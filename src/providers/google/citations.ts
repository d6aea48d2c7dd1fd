/**
 * Gives the sources of a grounded answer's statements as annotations.
 * Source: https://ai.google.dev/gemini-api/docs/google-search#attributing_sources_with_inline_citations
 */
import { type JsonObject, listOf, numberOf, objectOf, textOf } from "../../lib/json/json.ts";
import type { Annotation } from "../../protocols/chat/schema.ts";

/** @param text the whole answer; the segments' places are counted in its UTF-8 bytes */
export function citationsOf(grounding: JsonObject | undefined, text: string): Annotation[] {
  const supports = listOf(grounding?.["groundingSupports"]);
  if (supports.length === 0) return [];
  const bytes = Buffer.from(text);
  const indexAt = (byte: number) => bytes.toString("utf8", 0, byte).length;
  const sources = listOf(grounding?.["groundingChunks"]).map((chunk) => objectOf(objectOf(chunk)?.["web"]));
  return supports.flatMap((support) => {
    const { segment, groundingChunkIndices } = objectOf(support) ?? {};
    const { startIndex, endIndex } = objectOf(segment) ?? {};
    const start_index = indexAt(numberOf(startIndex) ?? 0);
    const end_index = indexAt(numberOf(endIndex) ?? 0);
    return listOf(groundingChunkIndices).flatMap((at): Annotation[] => {
      const source = sources[numberOf(at) ?? -1];
      const url = textOf(source?.["uri"]);
      if (url === undefined) return [];
      const title = textOf(source?.["title"]) ?? "";
      return [{ type: "url_citation", url_citation: { start_index, end_index, url, title } }];
    });
  });
}
