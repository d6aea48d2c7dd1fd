/** A small call to each key of a provider, made when somebody has seen that it costs money. */

import { useId, useState } from "preact/hooks";
import type { ProviderTested } from "../../../api/providers.ts";
import { post } from "../../api.ts";
import { useAction } from "../../data.ts";
import { Curl } from "../../ui/copy.tsx";
import { Button, Dialog, Field, TextInput } from "../../ui/form.tsx";
import { count, duration, Money } from "../../ui/format.tsx";
import { Badge, Bar, Panel } from "../../ui/layout.tsx";
import { Failure } from "../../ui/states.tsx";
import { Table } from "../../ui/table.tsx";
import { keyName, type ProviderKey, reasonWords } from "./types.ts";

/** What came of it, in a sentence for screen readers. */
const summary = ({ model, results }: ProviderTested): string => {
  const answered = results.filter((one) => one.answered).length;
  return `Test of ${model}: ${answered === results.length ? "answered" : `${answered} of ${results.length} answered`}.`;
};

type TestCallProps = {
  readonly provider: string;
  readonly keys: readonly ProviderKey[];
  /** Those that are known, for the field's suggestions. */
  readonly models: readonly string[];
};

export function TestCall({ provider, keys, models }: TestCallProps) {
  const [model, setModel] = useState("");
  const [isAsking, setAsking] = useState(false);
  const [tested, setTested] = useState<ProviderTested>();
  const { busy, error, run } = useAction();
  const listId = useId();
  const path = `v1/providers/${encodeURIComponent(provider)}/test`;
  const chosen = model.trim() || models[0] || "";
  const body = chosen === "" ? {} : { model: chosen };
  const test = async () => {
    setAsking(false);
    setTested(undefined);
    await run(async () => setTested(await post<ProviderTested>(path, body)));
  };
  const nameOf = (fingerprint: string) =>
    keyName(keys.find((key) => key.fingerprint === fingerprint) ?? { fingerprint, name: null });
  return (
    <Panel title="Test call" actions={<Curl method="POST" path={path} body={body} />}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          setAsking(true);
        }}
      >
        <Bar>
          <Field label="Model, as the provider names it">
            <TextInput value={model} onInput={setModel} list={listId} {...(models[0] && { placeholder: models[0] })} />
          </Field>
          <datalist id={listId}>
            {models.slice(0, 200).map((one) => (
              <option key={one} value={one} />
            ))}
          </datalist>
          <Button type="submit" busy={busy} disabled={chosen === ""}>
            Test call…
          </Button>
        </Bar>
      </form>
      <Dialog title={`Test ${provider}`} open={isAsking} onClose={() => setAsking(false)}>
        <p>
          {keys.length === 1 ? "One small call goes" : `${count(keys.length)} small calls go`} to <code>{chosen}</code>
          {keys.length > 1 && ", one with each key at each endpoint"}. Each costs a few tokens: the provider bills them,
          no budget counts them, and the audit keeps who made them.
        </p>
        <Bar>
          <Button tone="primary" onClick={test}>
            Make the call
          </Button>
        </Bar>
      </Dialog>
      {error !== undefined && <Failure error={error} />}
      <p class="unseen" role="status">
        {busy ? "The test is under way." : tested && summary(tested)}
      </p>
      {tested !== undefined && (
        <Table
          caption={`Results of the test of ${tested.model}`}
          rows={tested.results}
          rowKey={({ fingerprint, endpoint }) => `${fingerprint} ${endpoint}`}
          rowTone={({ answered }) => (answered ? undefined : "bad")}
          empty={<p class="muted">Nothing was called.</p>}
          columns={[
            { id: "key", title: "Key", cell: ({ fingerprint }) => nameOf(fingerprint) },
            {
              ...{ id: "result", title: "Result" },
              cell: ({ answered, status, reason }) => (
                <>
                  <Badge tone={answered ? "ok" : "bad"}>{answered ? "answered" : "failed"}</Badge> {status ?? ""}{" "}
                  {reason !== null && <span title={reason}>{reasonWords(reason)}</span>}
                </>
              ),
            },
            { id: "model", title: "Model", cell: () => tested.model },
            { id: "time", title: "Time", align: "end", cell: ({ milliseconds }) => duration(milliseconds) },
            {
              ...{ id: "tokens", title: "Tokens", align: "end" },
              cell: ({ tokens }) => (tokens === null ? "–" : `${count(tokens.input)} in, ${count(tokens.output)} out`),
            },
            {
              ...{ id: "cost", title: "Cost", align: "end" },
              cell: ({ answered, cost_micro_dollars: cost }) => (answered ? <Money micro={cost} /> : "–"),
            },
            {
              ...{ id: "text", title: "Answer or error" },
              cell: ({ answer, message }) => <span class="wraps upstream-text">{answer ?? message ?? ""}</span>,
            },
            { id: "endpoint", title: "Endpoint", cell: ({ endpoint }) => <code>{endpoint}</code> },
          ]}
        />
      )}
    </Panel>
  );
}
