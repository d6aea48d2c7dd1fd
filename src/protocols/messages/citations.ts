/**
 * Citations of web pages: annotations in the inner form, and on the text blocks of this format.
 * Source: https://platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool#citations
 */
import { derive, isObject, type JsonObject, keepSame, listOf, objectOf, textOf } from "../../lib/json/json.ts";
import { emptySeal, isSeal } from "../state/seal.ts";

/**
 * The page's own words and Anthropic's index of them are not known: other makers name the address alone.
 * @returns undefined for an annotation that names no page
 */
export function citationOf(annotation: unknown): JsonObject | undefined {
  const { url, title } = objectOf(objectOf(annotation)?.["url_citation"]) ?? {};
  if (typeof url !== "string") return undefined;
  return {
    type: "web_search_result_location",
    cited_text: "",
    url,
    title: textOf(title) ?? "",
    encrypted_index: emptySeal,
  };
}

/** A block without the citations that were made here, which Anthropic refuses. @returns the block itself where it has none */
export function withoutForeignCitations(block: unknown): unknown {
  if (!isObject(block) || !Array.isArray(block["citations"])) return block;
  const citations = listOf(block["citations"]);
  const own = keepSame(
    citations,
    citations.filter((citation) => !isForeign(citation)),
  );
  if (own === citations) return block;
  const { citations: _, ...rest } = block;
  return derive(block, own.length === 0 ? rest : { ...rest, citations: own });
}

const isForeign = (citation: unknown): boolean => isSeal(textOf(objectOf(citation)?.["encrypted_index"]) ?? "");
