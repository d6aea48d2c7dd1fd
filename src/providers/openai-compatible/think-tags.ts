/**
 * Separates the thoughts of models that write them into their text, `<think>…</think>` before the answer, from the answer.
 * Only a tag that opens the text counts: one in the middle is something the model talks about.
 */
const opening = "<think>";
const closing = "</think>";

type ThinkSplit = { content: string; thoughts: string };

/** One choice's state. Gives back what is sure, whatever the fragments' borders; white space around the tags is dropped. */
export class ThinkTags {
  #place: "before" | "inside" | "after" | "content" = "before";
  /** May still turn out to be a tag, or white space to drop. */
  #held = "";
  #hasThoughts = false;

  /** True once everything that comes is content. */
  get settled(): boolean {
    return this.#place === "content";
  }

  /** @param isLast nothing follows: what was held back is given out */
  push(fragment: string, isLast: boolean): ThinkSplit {
    const split: ThinkSplit = { content: "", thoughts: "" };
    let text = this.#held + fragment;
    this.#held = "";
    if (this.#place === "before") text = this.#open(text, isLast);
    if (this.#place === "inside") text = this.#think(text, isLast, split);
    if (this.#place === "after") {
      text = text.trimStart();
      if (text !== "") this.#place = "content";
    }
    if (this.#place === "content") split.content = text;
    return split;
  }

  #open(text: string, isLast: boolean): string {
    const start = text.trimStart();
    if (start.startsWith(opening)) {
      this.#place = "inside";
      return start.slice(opening.length);
    }
    if (!isLast && opening.startsWith(start)) this.#held = text;
    else this.#place = "content";
    return text;
  }

  /** @returns what follows the closing tag */
  #think(fragment: string, isLast: boolean, split: ThinkSplit): string {
    const text = this.#hasThoughts ? fragment : fragment.trimStart();
    const end = text.indexOf(closing);
    if (end >= 0) {
      split.thoughts = text.slice(0, end).trimEnd();
      this.#place = "after";
      return text.slice(end + closing.length);
    }
    const sure = isLast ? text.trimEnd().length : sureLength(text);
    split.thoughts = text.slice(0, sure);
    this.#held = text.slice(sure);
    this.#hasThoughts ||= sure > 0;
    return "";
  }
}

/** The length of the text that can be neither the beginning of the closing tag nor the white space before it. */
function sureLength(text: string): number {
  let sure = text.length;
  for (let length = Math.min(closing.length - 1, text.length); length > 0; length -= 1) {
    if (text.endsWith(closing.slice(0, length))) {
      sure -= length;
      break;
    }
  }
  return text.slice(0, sure).trimEnd().length;
}
