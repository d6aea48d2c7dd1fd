/**
 * Keeps the state that continues a thought in the slot that this format has for it: `thoughtSignature` of a part. There
 * Google's own stands as it is, on the very part that it came on, and all else in an envelope (`seal.ts`).
 */

import { parseDataUrl } from "../../lib/http/data-url.ts";
import { objectOf, textOf } from "../../lib/json/json.ts";
import { wholeDetails } from "../chat/reasoning-details.ts";
import type { MessageState } from "../state/returned-state.ts";
import { ReturnedState } from "../state/returned-state.ts";
import { isSeal, type SealFamily, sealAsBytes, sealFamilies } from "../state/seal.ts";

/** The makers whose state stands in `extra_content`, Google apart. */
const others: readonly SealFamily[] = ["openai", "xai"];

/** Collects the state of one turn from the parts that come back. */
export class ReturnedSignatures {
  readonly #state = new ReturnedState();

  /**
   * @param signature of a part
   * @returns the state of the part itself, where it is a call
   */
  take(signature: string | null | undefined): { extra_content?: Record<string, unknown> } {
    if (!signature) return {};
    if (!isSeal(signature)) return { extra_content: { google: { thought_signature: signature } } };
    const { family, content } = this.#state.open(signature) ?? {};
    const call = objectOf(content?.["call"]);
    return family === undefined || call === undefined ? {} : { extra_content: { [family]: call } };
  }

  /** Takes the signature of a part that is no call: it is the turn's. */
  takeText(signature: string | null | undefined): void {
    Object.assign(this.#state.extra, this.take(signature).extra_content);
  }

  fields(): ReturnType<ReturnedState["fields"]> {
    return this.#state.fields();
  }
}

/** @returns the signatures that a turn's parts are to carry: Google's own, and the envelopes of others */
export function signaturesOf({ thinking_blocks, extra_content, reasoning_details }: MessageState): {
  readonly own: string | undefined;
  readonly envelopes: readonly string[];
} {
  const envelopes: string[] = [];
  const blocks = thinking_blocks ?? [];
  if (blocks.length > 0) {
    const layout = objectOf(extra_content?.["anthropic"])?.["layout"];
    envelopes.push(sealAsBytes("anthropic", { blocks, ...(Array.isArray(layout) && { layout }) }));
  }
  for (const family of others) {
    const message = objectOf(extra_content?.[family]);
    if (message !== undefined) envelopes.push(sealAsBytes(family, { message }));
  }
  const details = wholeDetails(reasoning_details);
  if (details.length > 0) envelopes.push(sealAsBytes("openrouter", { details }));
  return { own: googleSignature(extra_content), envelopes };
}

/** @returns the signature of a call's own part */
export function signatureOfCall(extra_content: unknown): string | undefined {
  const extra = objectOf(extra_content);
  const own = googleSignature(extra);
  if (own !== undefined) return own;
  const family = sealFamilies.find((one) => one !== "google" && objectOf(extra?.[one]) !== undefined);
  return family && sealAsBytes(family, { call: extra![family] });
}

export function googleSignature(extra_content: unknown): string | undefined {
  return textOf(objectOf(objectOf(extra_content)?.["google"])?.["thought_signature"]) || undefined;
}

/** An image that the model made, in the field where answers carry it. @param signatureIn its `extra_content` */
export function imagePart(image: unknown, signatureIn: (extra_content: unknown) => string | undefined): InlinePart[] {
  const { image_url, extra_content } = objectOf(image) ?? {};
  const media = parseDataUrl(textOf(objectOf(image_url)?.["url"]) ?? "");
  if (media === undefined) return [];
  const thoughtSignature = signatureIn(extra_content);
  const inlineData = { mimeType: media.mimeType, data: media.base64 };
  return [{ inlineData, ...(thoughtSignature !== undefined && { thoughtSignature }) }];
}

type InlinePart = { inlineData: { mimeType: string; data: string }; thoughtSignature?: string };

/**
 * Taken in place of a signature that another model made none of, or that a client lost.
 * Source: https://ai.google.dev/gemini-api/docs/thought-signatures#faqs
 */
export const anySignature = "skip_thought_signature_validator";
