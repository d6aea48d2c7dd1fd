/** A key's secret, which is shown once. */
import { useLayoutEffect, useRef } from "preact/hooks";
import { Copy } from "../../ui/copy.tsx";
import { Bar } from "../../ui/layout.tsx";
import type { NewKey } from "./types.ts";

const firstPath: Readonly<Record<string, string>> = {
  orchestrator: "v1/models",
  gateway: "gateway/v1/models",
  raw: "gateway/v1/models",
  admin: "admin/v1/health",
};

export function Secret({ made }: { readonly made: NewKey }) {
  const surface = Object.keys(firstPath).find((one) => made.surfaces.includes(one))!;
  const url = new URL(firstPath[surface]!, document.baseURI).href;
  const curl = `curl ${url} \\\n  -H "Authorization: Bearer ${made.key}"`;
  const place = useRef<HTMLDivElement>(null);
  // The form that had the focus is gone: what comes next is to copy.
  useLayoutEffect(() => place.current?.querySelector("button")?.focus(), []);
  return (
    <>
      <p class="notice warn" role="status">
        This is the only time that the key is shown. Copy it now; only its first characters are kept.
      </p>
      <div ref={place}>
        <Bar>
          <code class="secret">{made.key}</code>
          <Copy text={made.key} label="Copy the key" />
        </Bar>
      </div>
      <p>{surface === "admin" ? "Try it:" : "Try it: which models may it call?"}</p>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
      <pre tabIndex={0}>{curl}</pre>
      <Copy text={curl} label="Copy as curl" />
    </>
  );
}
