/** Code in colours. They are elements around text: nothing of it becomes markup. */
import { languages, type Token, type TokenStream, tokenizeText } from "prism-code-editor/prism";
import "prism-code-editor/prism/languages/json";
import "prism-code-editor/prism/languages/yaml";
import { useMemo } from "preact/hooks";
import "./code.css";

export type Piece = { readonly kind: string; readonly text: string };

/** Longer texts have no colours, so that the page stays quick. */
const maxColoured = 60_000;
const aliases: Readonly<Record<string, string>> = { yml: "yaml", jsonc: "json" };

function* flat(stream: TokenStream, kind = ""): Generator<Piece> {
  for (const token of stream) {
    if (typeof token === "string") yield { kind, text: token };
    else {
      const { type, content } = token as Token;
      if (typeof content === "string") yield { kind: type, text: content };
      else yield* flat(content, type);
    }
  }
}

/** @param language `json` or `yaml`; texts of others have no colours @returns the text's parts in their order */
export function piecesOf(text: string, language: string): Iterable<Piece> {
  const name = aliases[language] ?? language;
  const grammar = (name === "json" || name === "yaml") && text.length <= maxColoured ? languages[name] : undefined;
  return flat(grammar === undefined ? [text] : tokenizeText(text, grammar));
}

/** @returns JSON with its parts on lines of their own; any other text as it is */
export function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

export function Code({
  text,
  language = "",
  label,
}: {
  readonly text: string;
  readonly language?: string;
  /** For screen readers. */
  readonly label?: string;
}) {
  const pieces = useMemo(() => [...piecesOf(text, language)], [text, language]);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <pre class="code" tabIndex={0} {...(label !== undefined && { role: "region", "aria-label": label })}>
      <code>
        {pieces.map(({ kind, text: part }, at) =>
          kind === "" ? (
            part
          ) : (
            <span key={at} class={`t-${kind}`}>
              {part}
            </span>
          ),
        )}
      </code>
    </pre>
  );
}
