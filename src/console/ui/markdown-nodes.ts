/**
 * What a model wrote, as nodes of the page: made one by one from the parser's tokens, of a short list of elements, each attribute set here. HTML in it is text
 * but for a few plain tags; nothing is ever parsed as HTML.
 */
import { Lexer, type Token, type Tokens } from "marked";

/** Deeper parts stand as text: the browser lays out what is in each other one within the other. */
const maxDepth = 60;

/** Tags that people write amid Markdown, without attributes. */
const plainTag = /<(\/?)(br|sub|sup|kbd|b|i|em|strong|del|s)\s*\/?>/gi;

/** Of HTML's two thousand names those that people write; others stay as they are written. */
const entities: Readonly<Record<string, string>> = {
  ...{ amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", copy: "©", reg: "®", trade: "™", deg: "°" },
  ...{ hellip: "…", mdash: "—", ndash: "–", lsquo: "‘", rsquo: "’", ldquo: "“", rdquo: "”", laquo: "«", raquo: "»" },
  ...{
    bull: "•",
    middot: "·",
    times: "×",
    divide: "÷",
    plusmn: "±",
    minus: "−",
    ne: "≠",
    le: "≤",
    ge: "≥",
    asymp: "≈",
  },
  ...{ larr: "←", uarr: "↑", rarr: "→", darr: "↓", euro: "€", pound: "£", yen: "¥", cent: "¢", sect: "§", para: "¶" },
  ...{
    infin: "∞",
    alpha: "α",
    beta: "β",
    gamma: "γ",
    delta: "δ",
    lambda: "λ",
    mu: "μ",
    pi: "π",
    sigma: "σ",
    omega: "ω",
  },
};

function decode(text: string): string {
  if (!text.includes("&")) return text;
  return text.replace(/&(?:#(\d{1,7})|#x([\da-f]{1,6})|([a-z]{2,8}));/gi, (all, decimal, hex, name) => {
    if (name !== undefined) return Object.hasOwn(entities, name) ? entities[name]! : all;
    const code = Number.parseInt(decimal ?? hex, decimal === undefined ? 16 : 10);
    return code > 0 && code <= 0x10_ff_ff ? String.fromCodePoint(code) : "\ufffd";
  });
}

/** Pictures that hold themselves, of kinds without scripts. */
const ownPicture = /^data:image\/(?:png|jpeg|gif|webp|avif);base64,[\w+/=]+$/i;

/** @returns an address of the web, written out; undefined: it is of another kind */
function webAddress(text: string): URL | undefined {
  return (/^\s*(?:https?|mailto):/i.test(text) && URL.parse(text)) || undefined;
}

/** Leads out of the page, which stays unknown there. */
function linkTo({ href }: URL): HTMLAnchorElement {
  const link = document.createElement("a");
  link.href = href;
  link.target = "_blank";
  link.rel = "noopener noreferrer";
  link.title = href;
  return link;
}

/** Nothing is loaded from elsewhere by itself: such a picture is a link, which asks for it when it is followed. */
function picture({ href, text }: Tokens.Image): Node {
  const alt = decode(text).slice(0, 500);
  const from = decode(href).trim();
  if (ownPicture.test(from)) {
    const own = document.createElement("img");
    own.src = from;
    own.alt = alt;
    return own;
  }
  const url = webAddress(from);
  const words = `[picture${alt && `: ${alt}`}${url === undefined ? "" : `, at ${url.host}`}]`;
  if (url === undefined) return document.createTextNode(words);
  const link = linkTo(url);
  link.textContent = words;
  return link;
}

/** Where tokens go: plain tags that are open are inside each other. */
class Place {
  readonly #root: Node;
  readonly #open: HTMLElement[] = [];
  constructor(root: Node) {
    this.#root = root;
  }

  add(...nodes: readonly (Node | string)[]): void {
    const at = this.#open.at(-1) ?? this.#root;
    for (const one of nodes) at.appendChild(typeof one === "string" ? document.createTextNode(one) : one);
  }

  /** HTML as the text that it is, and its plain tags as what they are. */
  html(text: string): void {
    let from = 0;
    for (const { 0: tag, 1: closing, 2: written, index } of text.matchAll(plainTag)) {
      if (index > from) this.add(text.slice(from, index));
      from = index + tag.length;
      const name = written!.toLowerCase();
      if (name === "br") this.add(document.createElement("br"));
      else if (closing) {
        const at = this.#open.findLastIndex(({ localName }) => localName === name);
        if (at >= 0) this.#open.length = at;
      } else if (this.#open.length < maxDepth) {
        const element = document.createElement(name);
        this.add(element);
        this.#open.push(element);
      }
    }
    if (from < text.length) this.add(text.slice(from));
  }
}

/** A part of the page, wide or long: it scrolls by keyboard, too. */
function scrolled(name: "pre" | "table"): HTMLElement {
  const element = document.createElement(name);
  element.tabIndex = 0;
  return element;
}

const withTokens = (name: string, tokens: readonly Token[] | undefined, depth: number): HTMLElement => {
  const element = document.createElement(name);
  fill(element, tokens ?? [], depth + 1);
  return element;
};

function row(cells: readonly Tokens.TableCell[], depth: number): HTMLElement {
  const element = document.createElement("tr");
  for (const { tokens, header, align } of cells) {
    const cell = withTokens(header ? "th" : "td", tokens, depth);
    if (align === "right") cell.className = "end";
    element.append(cell);
  }
  return element;
}

function table({ header, rows }: Tokens.Table, depth: number): HTMLElement {
  const [element, head, body] = [scrolled("table"), document.createElement("thead"), document.createElement("tbody")];
  head.append(row(header, depth));
  body.append(...rows.map((one) => row(one, depth)));
  element.append(head, body);
  return element;
}

function list({ ordered, start, items }: Tokens.List, depth: number): HTMLElement {
  const element = document.createElement(ordered ? "ol" : "ul");
  if (ordered && start !== "" && start !== 1 && start < 1e9) element.setAttribute("start", String(start));
  for (const { tokens } of items) element.append(withTokens("li", tokens, depth), "\n");
  return element;
}

function link({ href, tokens, text, autolink }: Tokens.Link & { readonly autolink?: boolean }, depth: number): Node {
  const url = webAddress(autolink ? href : decode(href));
  const element = url === undefined ? document.createElement("a") : linkTo(url);
  if (autolink) element.textContent = text;
  else fill(element, tokens, depth + 1);
  return element;
}

function code({ text }: Tokens.Code): HTMLElement {
  const element = scrolled("pre");
  const inner = document.createElement("code");
  inner.textContent = text;
  element.append(inner);
  return element;
}

function codeSpan(text: string): HTMLElement {
  const element = document.createElement("code");
  element.textContent = text;
  return element;
}

type Maker = (token: never, depth: number) => Node;
const makers: Readonly<Record<string, Maker>> = {
  // The page has a heading of its own above those of an answer.
  heading: ({ tokens, depth: level }: Tokens.Heading, depth) => withTokens(`h${Math.min(6, level + 2)}`, tokens, depth),
  paragraph: ({ tokens }: Tokens.Paragraph, depth) => withTokens("p", tokens, depth),
  blockquote: ({ tokens }: Tokens.Blockquote, depth) => withTokens("blockquote", tokens, depth),
  strong: ({ tokens }: Tokens.Strong, depth) => withTokens("strong", tokens, depth),
  em: ({ tokens }: Tokens.Em, depth) => withTokens("em", tokens, depth),
  del: ({ tokens }: Tokens.Del, depth) => withTokens("del", tokens, depth),
  hr: () => document.createElement("hr"),
  br: () => document.createElement("br"),
  checkbox: ({ checked }: Tokens.Checkbox) => document.createTextNode(checked ? "☑ " : "☐ "),
  codespan: ({ text }: Tokens.Codespan) => codeSpan(text),
  image: picture,
  ...{ code, list, table, link },
};
const blocks = ["heading", "paragraph", "blockquote", "hr", "code", "list", "table"];

function fill(root: Node, tokens: readonly Token[], depth: number): void {
  const place = new Place(root);
  for (const token of tokens) {
    const { type } = token;
    if (depth > maxDepth) place.add(token.raw);
    else if (type === "html") place.html((token as Tokens.HTML).text);
    else if (type === "text" && token.tokens !== undefined) {
      const inner = document.createDocumentFragment();
      fill(inner, token.tokens, depth + 1);
      place.add(inner);
    } else if (type === "text") place.add(token.escaped ? token.text : decode(token.text));
    else if (type === "escape") place.add((token as Tokens.Escape).text);
    else if (Object.hasOwn(makers, type)) {
      place.add(makers[type]!(token as never, depth));
      if (blocks.includes(type)) place.add("\n");
    }
  }
}

/** @throws where the parser gives up, such as at quotations ten thousand deep */
export function markdownNodes(text: string): DocumentFragment {
  const fragment = document.createDocumentFragment();
  fill(fragment, Lexer.lex(text), 0);
  return fragment;
}
