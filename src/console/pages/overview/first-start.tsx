/** What to do on a server that nobody has called yet. */

import type { PersonaSummary } from "../../../api/personas.ts";
import type { ProviderList } from "../../../api/providers.ts";
import type { Listed } from "../../../api/shape.ts";
import { get } from "../../api.ts";
import { useResource } from "../../data.ts";
import { href } from "../../router.ts";
import { Copy } from "../../ui/copy.tsx";
import { Button } from "../../ui/form.tsx";
import { count } from "../../ui/format.tsx";
import { Bar, Panel } from "../../ui/layout.tsx";

/** A call in the words of a shell. @param model that is there */
const callOf = (model: string) => `curl ${new URL("v1/chat/completions", document.baseURI).href} \\
  -H "Authorization: Bearer $TROUPE_KEY" -H 'Content-Type: application/json' \\
  -d '{"model": "${model}", "messages": [{"role": "user", "content": "Hello"}]}'`;

export function FirstStart({ reload }: { readonly reload: () => void }) {
  const providers = useResource((signal) => get<ProviderList>("v1/providers", {}, { signal }), []);
  const personas = useResource((signal) => get<Listed<PersonaSummary>>("v1/personas", { limit: "1" }, { signal }), []);
  const ready = providers.data?.data.length;
  const call = callOf(personas.data?.data[0]?.id ?? "troupe/assistant");
  return (
    <Panel title="Nothing was called yet" actions={<Button onClick={reload}>Look again</Button>}>
      <ol class="steps">
        <li>
          {ready === 0 ? (
            <>
              No provider is set up. Start the server with a key of one, such as <code>ANTHROPIC_API_KEY</code> or{" "}
              <code>OPENAI_API_KEY</code>, or name providers in the configuration.{" "}
              <a href={href("providers")}>Providers</a>
            </>
          ) : (
            <>
              {ready === undefined
                ? "Providers"
                : `${count(ready)} ${ready === 1 ? "provider is" : "providers are"} set up`}
              : <a href={href("providers")}>try one by a test call</a>.
            </>
          )}
        </li>
        <li>
          <a href={href("keys")}>Make a key</a> for whoever calls, with a budget where you want one.
        </li>
        <li>
          Call, here in the <a href={href("playground")}>Playground</a> or from a shell:
          <pre>{call}</pre>
          <Bar>
            <Copy text={call} label="Copy as curl" />
          </Bar>
        </li>
      </ol>
    </Panel>
  );
}
