/** `/account`: what a key used, what is left of it, what it may call, and how a client is set up with it. */
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { type Account, ask, type Budget, type FailedCall, type Model, Refused, wordsOf } from "./api.ts";
import { setUps } from "./set-up.ts";
import "./style.css";

const periods = [7, 30, 90] as const;
const shownModels = 50;

const dollars = (micro: number) => {
  const value = micro / 1e6;
  const digits = value === 0 || value >= 0.995 ? 2 : value >= 0.01 ? 3 : 6;
  return `$${value.toLocaleString("en", { minimumFractionDigits: Math.min(digits, 2), maximumFractionDigits: digits })}`;
};
/** Money with its exact value on hover. */
const Money = ({ micro }: { readonly micro: number }) => (
  <span title={`$${(micro / 1e6).toFixed(6)}`}>{dollars(micro)}</span>
);
const count = (value: number) => value.toLocaleString("en");
const time = (iso: string) => new Date(iso).toLocaleString();
const tokensOf = ({ tokens }: { readonly tokens: Readonly<Record<string, number>> }) =>
  Object.values(tokens).reduce((sum, one) => sum + one, 0);

function App() {
  const [account, setAccount] = useState<Account>();
  const [days, setDays] = useState<number>(30);
  const [state, setState] = useState<"loading" | "signed-out" | "ended" | "in">("loading");
  const [error, setError] = useState<string>();
  const load = async (days: number) => {
    try {
      setAccount(await ask<Account>(`data?days=${days}`));
      setState("in");
      setError(undefined);
    } catch (failure) {
      if (!(failure instanceof Refused && failure.code === "session_ended")) setError(wordsOf(failure));
      else setState((before) => (before === "in" ? "ended" : "signed-out"));
    }
  };
  useEffect(() => void load(days), [days]);
  const signOut = async () => {
    await ask("session", "DELETE").catch(() => {});
    setAccount(undefined);
    setState("signed-out");
  };
  if (state === "signed-out" || state === "ended")
    return <SignIn hasEnded={state === "ended"} onDone={() => void load(days)} />;
  if (account === undefined)
    return <main>{error === undefined ? <p class="quiet">Loading…</p> : <Fault text={error} />}</main>;
  const { key, limits, usage, budgets, models, failed, rotation, base_urls } = account;
  return (
    <main>
      <header>
        <div>
          <h1>{key.name}</h1>
          <p class="quiet">
            Plan {key.tier} · {count(limits.requests_per_minute)} requests a minute
            {limits.tokens_per_minute !== null && ` · ${count(limits.tokens_per_minute)} tokens a minute`}
            {key.expires_at !== null && ` · the key expires ${time(key.expires_at)}`}
          </p>
        </div>
        <button type="button" onClick={() => void signOut()}>
          Sign out
        </button>
      </header>
      {error !== undefined && <Fault text={error} />}
      <section aria-labelledby="used">
        <div class="row">
          <h2 id="used">Used and spent</h2>
          <label>
            Days{" "}
            <select value={days} onChange={({ currentTarget }) => setDays(Number(currentTarget.value))}>
              {periods.map((choice) => (
                <option key={choice} value={choice}>
                  {choice}
                </option>
              ))}
            </select>
          </label>
        </div>
        <Usage usage={usage} />
      </section>
      <section aria-labelledby="budgets">
        <h2 id="budgets">Budgets</h2>
        {budgets.length === 0 && <p class="quiet">No budget counts your calls.</p>}
        {budgets.map((budget) => (
          <BudgetRow key={budget.id} budget={budget} />
        ))}
      </section>
      <Clients models={models.data} hasMore={models.has_more} bases={base_urls} />
      <Failed calls={failed} />
      <section aria-labelledby="key">
        <h2 id="key">Your key</h2>
        <Rotation allowed={rotation.allowed} grace={rotation.grace_seconds} oldUntil={key.old_key_expires_at} />
      </section>
    </main>
  );
}

const Fault = ({ text }: { readonly text: string }) => (
  <p class="fault" role="alert">
    {text}
  </p>
);

function SignIn({ hasEnded, onDone }: { readonly hasEnded: boolean; readonly onDone: () => void }) {
  const [key, setKey] = useState("");
  const [error, setError] = useState<string>();
  const [busy, setBusy] = useState(false);
  const submit = async () => {
    setBusy(true);
    setError(undefined);
    try {
      await ask("session", "POST", { key: key.trim() });
      onDone();
    } catch (failure) {
      setError(wordsOf(failure));
      setBusy(false);
    }
  };
  return (
    <main class="sign-in">
      <h1>Your account</h1>
      <p>
        Troupe is the gateway that your programs call models and personas by. Sign in with your API key to see what it
        used and spent, what is left, what it may call, and how to set up a client.
      </p>
      {hasEnded && <p role="status">Your session ended. Sign in again.</p>}
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <label for="api-key">API key</label>
        <input
          id="api-key"
          type="password"
          autocomplete="current-password"
          required
          autofocus
          maxLength={200}
          value={key}
          onInput={({ currentTarget }) => setKey(currentTarget.value)}
        />
        <button type="submit" class="main" disabled={busy || key.trim() === ""}>
          Sign in
        </button>
        {error !== undefined && <Fault text={error} />}
      </form>
    </main>
  );
}

function Usage({ usage }: { readonly usage: Account["usage"] }) {
  const { total, by_day, by_model } = usage;
  const top = Math.max(1, ...by_day.map(({ cost_micro_dollars: cost }) => cost));
  const areFree = by_day.every(({ cost_micro_dollars: cost }) => cost === 0);
  const most = Math.max(1, ...by_day.map(({ calls }) => calls));
  return (
    <>
      <dl class="cards">
        <div>
          <dt>Spent</dt>
          <dd>
            <Money micro={total.cost_micro_dollars} />
          </dd>
        </div>
        <div>
          <dt>Attempts</dt>
          <dd>{count(total.calls)}</dd>
        </div>
        <div>
          <dt>Tokens</dt>
          <dd>{count(tokensOf(total))}</dd>
        </div>
      </dl>
      {total.unknown_cost_calls > 0 && (
        <p class="quiet">Without {count(total.unknown_cost_calls)} attempts whose cost is unknown.</p>
      )}
      {by_day.length > 0 && (
        <ol class="days" aria-label={areFree ? "Attempts by day" : "Spent by day"}>
          {by_day.map(({ day, calls, cost_micro_dollars: cost }) => (
            <li key={day} title={`${day}: ${dollars(cost)}, ${count(calls)} attempts`}>
              <meter min={0} max={areFree ? most : top} value={areFree ? calls : cost} />
              <span>{day?.slice(5)}</span>
              <span>{areFree ? count(calls) : dollars(cost)}</span>
            </li>
          ))}
        </ol>
      )}
      {by_model.length > 0 && (
        <table>
          <thead>
            <tr>
              <th>Model</th>
              <th class="number">Attempts</th>
              <th class="number">Tokens</th>
              <th class="number">Spent</th>
            </tr>
          </thead>
          <tbody>
            {by_model.map((row) => (
              <tr key={row.model}>
                <td>{row.model === "" ? "(none)" : row.model}</td>
                <td class="number">{count(row.calls)}</td>
                <td class="number">{count(tokensOf(row))}</td>
                <td class="number">
                  <Money micro={row.cost_micro_dollars} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </>
  );
}

const scopeWords = (scope: string) =>
  scope.startsWith("all")
    ? "everybody together"
    : scope.startsWith("key:")
      ? "your key"
      : scope.replace(/:(\S+).*/, " $1");

function BudgetRow({ budget }: { readonly budget: Budget }) {
  const {
    scope,
    model,
    period,
    limit_micro_dollars: limit,
    spent_micro_dollars: spent,
    left_micro_dollars: left,
  } = budget;
  return (
    <div class="budget">
      <div class="row">
        <strong>
          <Money micro={left} /> left
        </strong>
        <span class="quiet">
          of <Money micro={limit} /> {period === "prepaid" ? "prepaid" : `a ${period}`}, {scopeWords(scope)}
          {model !== undefined && `, for ${model}`}
        </span>
      </div>
      <meter min={0} max={Math.max(1, limit)} high={0.8 * limit} optimum={0} value={Math.min(spent, limit)} />
      {left === 0 && (
        <p class="fault">
          It is spent.{" "}
          {budget.resets_at === null ? "It does not open by itself." : `It opens again ${time(budget.resets_at)}.`}
        </p>
      )}
      {left > 0 && budget.resets_at !== null && <p class="quiet">Begins anew {time(budget.resets_at)}.</p>}
    </div>
  );
}

type Tried = { readonly text: string; readonly isFault: boolean };
type Completion = { readonly choices: readonly { readonly message: { readonly content: string | null } }[] };

function Clients(given: {
  readonly models: readonly Model[];
  readonly hasMore: boolean;
  readonly bases: Readonly<Record<string, string>>;
}) {
  const { models, hasMore, bases } = given;
  const [search, setSearch] = useState("");
  const [chosen, setChosen] = useState<Model | undefined>(models[0]);
  const [client, setClient] = useState("Claude Code");
  const [tried, setTried] = useState<Tried>();
  const [isTrying, setTrying] = useState(false);
  const words = search.toLowerCase().split(/\s+/);
  const found = models.filter(({ id, description = "" }) =>
    words.every((word) => `${id} ${description}`.toLowerCase().includes(word)),
  );
  if (chosen === undefined) return <section>Your key may call no model here.</section>;
  const root = new URL(`.${bases[chosen.surface]!.replace(/\/v1$/, "")}`, new URL(".", location.href)).href.replace(
    /\/$/,
    "",
  );
  const all = setUps(root, chosen.id);
  const shown = all.find((one) => one.client === client) ?? all[0]!;
  const attempt = async () => {
    setTrying(true);
    setTried(undefined);
    try {
      const { choices } = await ask<Completion>("try", "POST", { model: chosen.id });
      setTried({ text: choices[0]?.message.content ?? "(an answer without text)", isFault: false });
    } catch (failure) {
      setTried({ text: wordsOf(failure), isFault: true });
    }
    setTrying(false);
  };
  return (
    <section aria-labelledby="may">
      <div class="row">
        <h2 id="may">What you may call</h2>
        <input
          type="search"
          aria-label="Search models and personas"
          placeholder="Search"
          value={search}
          onInput={({ currentTarget }) => setSearch(currentTarget.value)}
        />
      </div>
      <ul class="models">
        {found.slice(0, shownModels).map((model) => (
          <li key={`${model.surface} ${model.id}`}>
            <button type="button" aria-pressed={model === chosen} onClick={() => setChosen(model)}>
              <strong>{model.id}</strong>
              {model.description !== undefined && <span class="quiet">{model.description}</span>}
            </button>
          </li>
        ))}
      </ul>
      {found.length === 0 && <p class="quiet">None has these words.</p>}
      {(found.length > shownModels || hasMore) && (
        <p class="quiet">
          {count(Math.min(found.length, shownModels))} of {hasMore ? "more than " : ""}
          {count(found.length)}: search for others.
        </p>
      )}
      <h2>Set up a client for {chosen.id}</h2>
      <div class="row">
        <label>
          Client{" "}
          <select value={shown.client} onChange={({ currentTarget }) => setClient(currentTarget.value)}>
            {all.map((one) => (
              <option key={one.client}>{one.client}</option>
            ))}
          </select>
        </label>
        <span>
          <Copy text={shown.text} />{" "}
          <button type="button" class="main" disabled={isTrying} onClick={() => void attempt()}>
            {isTrying ? "Asking…" : "Try it"}
          </button>
        </span>
      </div>
      {shown.where !== undefined && <p class="quiet">In {shown.where}:</p>}
      <pre>{shown.text}</pre>
      {tried !== undefined && (tried.isFault ? <Fault text={tried.text} /> : <p role="status">{tried.text}</p>)}
    </section>
  );
}

function Copy({ text }: { readonly text: string }) {
  const [copied, setCopied] = useState<string>();
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setCopied(text);
  };
  return (
    <button type="button" onClick={() => void copy()}>
      {copied === text ? "Copied" : "Copy"}
    </button>
  );
}

function Failed({ calls }: { readonly calls: readonly FailedCall[] }) {
  return (
    <section aria-labelledby="failed">
      <h2 id="failed">Last failed calls</h2>
      {calls.length === 0 && <p class="quiet">None failed in these days.</p>}
      {calls.map((call) => (
        <article key={call.request_id}>
          <div class="row">
            <strong>
              {call.status ?? call.ended} {call.error_code}
            </strong>
            <span class="quiet">{time(call.at)}</span>
          </div>
          <p>
            {call.model}
            {call.error_text !== null && <span class="quiet"> · {call.error_text}</span>}
          </p>
          <code>{call.request_id}</code>
        </article>
      ))}
    </section>
  );
}

function Rotation(given: { readonly allowed: boolean; readonly grace: number; readonly oldUntil: string | null }) {
  const { allowed, grace, oldUntil } = given;
  const [made, setMade] = useState<{ readonly key: string; readonly old_key_expires_at: string | null }>();
  const [isAsked, setAsked] = useState(false);
  const [error, setError] = useState<string>();
  const rotate = async () => {
    setAsked(false);
    setError(undefined);
    try {
      setMade(await ask("rotate", "POST"));
    } catch (failure) {
      setError(wordsOf(failure));
    }
  };
  const until = made === undefined ? oldUntil : made.old_key_expires_at;
  if (!allowed) return <p class="quiet">A new secret is given by whoever runs this server.</p>;
  return (
    <>
      {made !== undefined && (
        <p role="status">
          Your new key, shown this once: <code>{made.key}</code> <Copy text={made.key} />
        </p>
      )}
      {until !== null && <p class="quiet">The old secret is taken until {time(until)}.</p>}
      {error !== undefined && <Fault text={error} />}
      {isAsked ? (
        <p>
          {grace === 0
            ? "The old secret is refused at once."
            : `The old secret is good for ${count(grace)} more seconds.`}{" "}
          <button type="button" class="main" onClick={() => void rotate()}>
            Give it a new secret
          </button>{" "}
          <button type="button" onClick={() => setAsked(false)}>
            Cancel
          </button>
        </p>
      ) : (
        <button type="button" onClick={() => setAsked(true)}>
          Rotate key
        </button>
      )}
    </>
  );
}

render(<App />, document.body);
