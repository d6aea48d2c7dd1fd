/** Texts to take along. */
import { useState } from "preact/hooks";
import { apiUrl } from "../api.ts";
import type { Query } from "../router.ts";
import { Button, type ButtonProps } from "./form.tsx";

/** Where the page has no clipboard, as by plain HTTP from another machine, the text is selected in a field that is taken away again. */
async function copy(text: string): Promise<void> {
  if (navigator.clipboard !== undefined) return navigator.clipboard.writeText(text);
  const focused = document.activeElement as HTMLElement | null;
  const field = document.createElement("textarea");
  field.value = text;
  (document.querySelector("dialog[open]") ?? document.body).append(field);
  field.select();
  const isDone = document.execCommand("copy");
  field.remove();
  focused?.focus();
  if (!isDone) throw new Error("The browser does not let the page copy.");
}

type CopyProps = { readonly text: string; readonly label?: string; readonly tone?: ButtonProps["tone"] };

export function Copy({ text, label = "Copy", tone }: CopyProps) {
  const [state, setState] = useState<"done" | "failed" | undefined>();
  const onClick = async () => {
    const next = await copy(text).then(
      () => "done" as const,
      () => "failed" as const,
    );
    setState(next);
    setTimeout(() => setState(undefined), 1_500);
  };
  return (
    <Button onClick={onClick} tone={tone}>
      <span aria-live="polite">{state === undefined ? label : state === "done" ? "Copied" : "Not copied"}</span>
    </Button>
  );
}

/** @returns a word of a POSIX shell. Source: https://pubs.opengroup.org/onlinepubs/9799919799/utilities/V3_chap02.html#tag_19_02_02 */
export const quoted = (text: string): string =>
  /^[\w./:=@%+,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;

/** @param url absolute @returns a command that makes the request; the key is the shell's variable */
export function curlOf(method: string, url: string, body?: unknown): string {
  const lines = [
    `curl ${method === "GET" ? "" : `-X ${method} `}${quoted(url)}`,
    `-H "Authorization: Bearer $TROUPE_KEY"`,
  ];
  if (body !== undefined) lines.push("-H 'Content-Type: application/json'", `-d ${quoted(JSON.stringify(body))}`);
  return lines.join(" \\\n  ");
}

/** Copies the request of the admin API that the page made. */
export function Curl({
  method = "GET",
  path,
  query,
  body,
}: {
  readonly method?: string;
  readonly path: string;
  readonly query?: Query;
  readonly body?: unknown;
}) {
  const url = new URL(apiUrl(path, query), document.baseURI).href;
  return <Copy text={curlOf(method, url, body)} label="Copy as curl" tone="quiet" />;
}
