/** What exactly a call sends: what became of each field, and the very request to each model. */

import { useState } from "preact/hooks";
import type { PlaygroundPreview } from "../../../api/playground.ts";
import { post } from "../../api.ts";
import { useAction } from "../../data.ts";
import { Code, pretty } from "../../ui/code.tsx";
import { Copy, Curl } from "../../ui/copy.tsx";
import { Button } from "../../ui/form.tsx";
import { Badge, Bar, Panel } from "../../ui/layout.tsx";
import { Failure } from "../../ui/states.tsx";
import { Table } from "../../ui/table.tsx";
import type { Json } from "./call.ts";

const path = "v1/playground/preview";
const fates = { unchanged: "as it is", changed: "decides", no_effect: "has no effect" } as const;

function One({ of, open }: { readonly of: PlaygroundPreview["requests"][number]; readonly open: boolean }) {
  const { model, use, format, composed, request, fields, added, error } = of;
  return (
    <details open={open}>
      <summary>
        <code>{model}</code> <Badge tone={use === "first" ? "ok" : "quiet"}>{use}</Badge> {format}
      </summary>
      {error !== undefined && (
        <p class="error">
          {error.message} ({error.code}
          {error.param && `, ${error.param}`})
        </p>
      )}
      {request === null ? (
        error === undefined && <p class="muted">Answered by this server itself.</p>
      ) : (
        <>
          <Bar>
            <code class="address">
              {request.method} {request.url}
            </code>
            <Copy text={request.body} label="Copy the body" />
          </Bar>
          <Code
            text={Object.entries(request.headers)
              .map((one) => one.join(": "))
              .join("\n")}
            label="Headers"
          />
          <Code text={pretty(request.body)} language="json" label="Body" />
          {request.is_cut && <p class="muted">This is its beginning: the body is long.</p>}
        </>
      )}
      {fields !== null && fields.length > 0 && (
        <Table
          caption={`What becomes of each field for ${model}`}
          columns={[
            { id: "name", title: "Field", cell: ({ name }) => <code>{name}</code> },
            {
              id: "fate",
              title: "What becomes of it",
              cell: ({ fate, to }) => (
                <>
                  <Badge tone={fate === "no_effect" ? "warn" : "quiet"}>{fates[fate]}</Badge> {to.join(", ")}
                </>
              ),
            },
          ]}
          rows={fields}
          rowKey={({ name }) => name}
          empty={null}
        />
      )}
      {added !== null && added.length > 0 && <p class="muted">Added by this server: {added.join(", ")}</p>}
      {composed !== null && (
        <details>
          <summary>The completion before it is translated</summary>
          <Code text={JSON.stringify(composed, null, 2)} language="json" label="Completion" />
        </details>
      )}
    </details>
  );
}

export function Sent({ body }: { readonly body: Json }) {
  const [shown, setShown] = useState<{ readonly of: string; readonly preview: PlaygroundPreview }>();
  const { busy, error, run } = useAction();
  const asked = { ...body, stream: true, usage: { include: true } };
  const text = JSON.stringify(asked);
  const load = () => run(async () => setShown({ of: text, preview: await post<PlaygroundPreview>(path, asked) }));
  const { persona, strategy, requests } = shown?.preview ?? { requests: [] };
  return (
    <Panel
      title="What exactly is sent?"
      note={String(body["model"])}
      actions={<Curl method="POST" path={path} body={asked} />}
    >
      <Bar>
        <Button onClick={load} busy={busy}>
          {shown === undefined ? "Show it" : "Show it again"}
        </Button>
        {shown !== undefined && shown.of !== text && <span class="muted">You have changed the request since.</span>}
      </Bar>
      {error !== undefined && <Failure error={error} />}
      {persona && (
        <p>
          Version <code>{persona.version}</code>
          {persona.variant !== null && `, variant ${persona.variant}`}
        </p>
      )}
      {strategy && <p>One of these is chosen: {strategy}.</p>}
      {requests.map((one, at) => (
        <One key={`${at} ${one.model}`} of={one} open={at === 0} />
      ))}
    </Panel>
  );
}
