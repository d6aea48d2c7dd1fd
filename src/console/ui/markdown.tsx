/** What a model wrote, as Markdown. It may be hostile, and is nodes of the page alone. Each part is bounded, so that no answer can freeze the page. */
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { Code } from "./code.tsx";
import { markdownNodes } from "./markdown-nodes.ts";
import "./markdown.css";

/** Longer parts stand as they are: the parser's time can grow with their square. */
const maxPart = 8_000;
/** Shorter ones stay together. */
const minPart = 1_000;
/** What is behind the last stands as it is. */
const maxParts = 4_000;
/** An answer's parts are Markdown until its slow ones took this long together, in milliseconds. */
const maxMs = 600;
const slowMs = 16;
/** What is drawn in one task of the page takes this long and one part more, in milliseconds. */
const maxTaskMs = 100;
const maxDefinitions = 4_000;

/** @returns undefined where the parser gives up */
function render(text: string): DocumentFragment | undefined {
  try {
    return markdownNodes(text);
  } catch {
    // Such as quotations ten thousand deep.
    return undefined;
  }
}

type Part =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "code"; readonly text: string; readonly language: string };

const listItem = /^(?:[-*+]|\d{1,9}[.)])(?:\s|$)/;

/** Cuts where a new block begins for certain, so that of a growing text only the last part is drawn again. */
function partsOf(text: string): readonly Part[] {
  const parts: Part[] = [];
  let held: string[] = [];
  let size = 0;
  let fence: { readonly mark: string; readonly language: string } | undefined;
  const end = () => {
    const own = held.join("\n");
    if (fence !== undefined) parts.push({ kind: "code", text: own, language: fence.language });
    else if (own.trim() !== "") parts.push({ kind: "text", text: own });
    held = [];
    size = 0;
  };
  let isList = false;
  let afterBlank = true;
  const lines = text.split("\n");
  for (const [row, line] of lines.entries()) {
    if (parts.length >= maxParts && held.length === 0) {
      parts.push({ kind: "text", text: lines.slice(row).join("\n") });
      return parts;
    }
    const [mark, , language = ""] = /^(`{3,}|~{3,})[ \t]*([^`\s]*)[^`]*$/.exec(line) ?? [];
    if (fence !== undefined) {
      if (mark?.startsWith(fence.mark) && /^[`~]+\s*$/.test(line)) {
        end();
        fence = undefined;
        afterBlank = true;
      } else held.push(line);
      continue;
    }
    if (mark !== undefined) {
      end();
      fence = { mark: /^(`+|~+)/.exec(line)![0], language: language.toLowerCase() };
      continue;
    }
    const item = listItem.test(line);
    const isLong = size > maxPart / 2;
    if (/^\S/.test(line) && (afterBlank || (isList && item && isLong))) {
      if (isLong || (size > minPart && !(isList && item))) end();
      isList = item;
    }
    held.push(line);
    size += line.length + 1;
    afterBlank = line.trim() === "";
  }
  // What is still being written has no colours yet.
  if (fence !== undefined) fence = { ...fence, language: "" };
  end();
  return parts;
}

/** Where the links of `[text][name]` lead, which stands anywhere in a text. */
function definitionsOf(text: string): string {
  const found = text.includes("]:") ? (text.match(/^ {0,3}\[[^\]\n]{1,100}\]:[ \t]*\S{1,500}/gm) ?? []) : [];
  const joined = found.join("\n");
  return joined.length > maxDefinitions ? "" : joined;
}

/** Draws an answer's parts, as many at once as a task of the page may; the others stand as text until the tasks behind it. */
class Drawing {
  /** What this task took. */
  #taskMs = 0;
  /** What slow parts took beyond what others take. */
  #slowMs = 0;
  #next: ReturnType<typeof setTimeout> | undefined;
  readonly #waiting = new Map<HTMLElement, () => void>();

  /** @param make what is to be in an element; undefined: its text @returns forgets what waits */
  show(element: HTMLElement, text: string, make: () => DocumentFragment | undefined): () => void {
    const isPlain = text.length > maxPart;
    const draw = () => {
      const began = performance.now();
      const fragment = !isPlain && this.#slowMs < maxMs ? make() : undefined;
      element.classList.toggle("plain", fragment === undefined);
      element.replaceChildren(fragment ?? text);
      const ms = performance.now() - began;
      this.#taskMs += ms;
      this.#slowMs += Math.max(0, ms - slowMs);
    };
    if (this.#taskMs < maxTaskMs) draw();
    else {
      element.classList.add("plain");
      element.replaceChildren(text);
      this.#waiting.set(element, draw);
    }
    this.#next ??= setTimeout(this.#goOn);
    return () => this.#waiting.delete(element);
  }

  readonly #goOn = () => {
    this.#taskMs = 0;
    for (const [element, draw] of this.#waiting) {
      if (this.#taskMs >= maxTaskMs) break;
      this.#waiting.delete(element);
      draw();
    }
    this.#next = this.#waiting.size > 0 ? setTimeout(this.#goOn) : undefined;
  };
}

function Text({ text, links, drawing }: { readonly text: string; readonly links: string; readonly drawing: Drawing }) {
  const place = useRef<HTMLDivElement>(null);
  useLayoutEffect(
    () => drawing.show(place.current!, text, () => render(links === "" ? text : `${text}\n\n${links}`)),
    [text, links],
  );
  return <div ref={place} />;
}

/** @param growing whether `text` is what has come so far */
export function Markdown({ text, growing = false }: { readonly text: string; readonly growing?: boolean }) {
  const parts = useMemo(() => partsOf(text), [text]);
  const links = useMemo(() => (growing ? "" : definitionsOf(text)), [text, growing]);
  const drawing = useMemo(() => new Drawing(), []);
  return (
    <div class="markdown">
      {parts.map((part, at) =>
        part.kind === "code" ? (
          <Code key={at} text={part.text} language={part.language} />
        ) : (
          <Text key={at} text={part.text} links={part.text.includes("]") ? links : ""} drawing={drawing} />
        ),
      )}
    </div>
  );
}
