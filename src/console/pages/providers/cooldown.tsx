/** What is in cooldown at providers, why, and until when: keys, keys for one model, and endpoints whose breaker is open. */
import { href } from "../../router.ts";
import { count } from "../../ui/format.tsx";
import { Badge } from "../../ui/layout.tsx";
import { Table } from "../../ui/table.tsx";
import { dayOf } from "../spend/sums.ts";
import { keyName, type Provider, reasonWords } from "./types.ts";
import { Until } from "./until.tsx";

type CoolingDown = {
  readonly id: string;
  readonly provider: string;
  readonly what: string;
  readonly endpoint: string;
  readonly reason: string;
  readonly note: string;
  readonly isBad: boolean;
  readonly until: string | null;
};

function coolingOf({ id: provider, keys, workers }: Provider): CoolingDown[] {
  const part = (of: number) => (workers && of < workers.answered ? `, in ${of} of ${workers.answered} workers` : "");
  return keys.flatMap((key, at) => {
    const { rests, breaker, endpoint } = key;
    const found = rests.map(({ model, reason, until, workers: of }, index) => ({
      ...{ id: `${provider} ${at} ${index}`, provider, endpoint, reason, until },
      what: `key ${keyName(key)}${model === null ? "" : `, for ${model} alone`}${part(of)}`,
      note: "",
      isBad: model === null && part(of) === "",
    }));
    if (breaker.state === "closed") return found;
    const isOpen = breaker.state === "open";
    const note = isOpen
      ? `${count(breaker.failures)} failures in a row`
      : "half open: the next call shows whether it is well again";
    return [
      ...found,
      {
        ...{ id: `${provider} ${at} breaker`, provider, endpoint, note, isBad: isOpen },
        what: `breaker of key ${keyName(key)}${part(breaker.workers)}`,
        reason: breaker.reason ?? "",
        until: breaker.until,
      },
    ];
  });
}

export function CooldownTable({
  providers,
  reload,
}: {
  readonly providers: readonly Provider[];
  readonly reload: () => void;
}) {
  const rows = providers.flatMap(coolingOf);
  const today = dayOf(Date.now());
  return (
    <Table
      caption="In cooldown"
      rows={rows}
      rowKey={({ id }) => id}
      rowTone={({ isBad }) => (isBad ? "bad" : "warn")}
      empty={
        <p class="muted">
          <Badge tone="ok">none</Badge> No key is in cooldown, and no breaker is open. A single key at a single endpoint
          never is: its errors are below.
        </p>
      }
      columns={[
        {
          ...{ id: "provider", title: "Provider" },
          cell: ({ provider }) => <a href={href("providers", [provider])}>{provider}</a>,
        },
        { id: "what", title: "What", cell: ({ what }) => what },
        {
          ...{ id: "why", title: "Why" },
          cell: ({ provider, reason, note }) => (
            <span class="wraps">
              {reason !== "" && (
                <a href={href("calls", [], { provider, failure: reason, since: today })} title={reason}>
                  {reasonWords(reason)}
                </a>
              )}
              {note !== "" && ` ${note}`}
            </span>
          ),
        },
        {
          ...{ id: "until", title: "Until" },
          cell: ({ until }) => (until === null ? "the next answer" : <Until at={until} onEnd={reload} />),
        },
        { id: "endpoint", title: "Endpoint", cell: ({ endpoint }) => <code>{endpoint}</code> },
      ]}
    />
  );
}
