/** One answer: what came, how fast, for how much, and where it stands in the ledger. */
import type { ApiFailure } from "../../api.ts";
import { href } from "../../router.ts";
import { Code, pretty } from "../../ui/code.tsx";
import { Copy } from "../../ui/copy.tsx";
import { count, duration, exactMoney } from "../../ui/format.tsx";
import { Badge, Bar, Facts } from "../../ui/layout.tsx";
import { Markdown } from "../../ui/markdown.tsx";
import { Failure } from "../../ui/states.tsx";
import type { Answer } from "./call.ts";
import { KeepTest } from "./keep-test.tsx";

const Request = ({ id }: { readonly id: string }) => <a href={href("calls", [id])}>{id}</a>;

function adviceOf({ status, code, param }: ApiFailure) {
  if (param) return `Change ${param} and send again.`;
  if (status === 429) return "A limit is reached: wait a moment, or choose another model.";
  if (status === 401 || status === 403)
    return (
      <>
        A key is refused: see <a href={href("providers")}>the providers</a> and <a href={href("keys")}>the keys</a>.
      </>
    );
  if (status === 404) return "Choose a model or persona of the list.";
  return code === "offline"
    ? "Send again when the server is back."
    : "Send again, or look at the call: it has each attempt.";
}

const tones = { open: "warn", done: "ok", stopped: "quiet", failed: "bad" } as const;
const states = { open: "answering", done: "answered", stopped: "stopped", failed: "failed" } as const;
const ownPicture = /^data:image\/(?:png|jpeg|gif|webp|avif);base64,/;

/** What an answer does better than the other one to the same question, and how many times. */
function betterThan(other: Answer | undefined, own: Answer): readonly string[] {
  if (own.state !== "done" || other?.state !== "done") return [];
  const less = (words: string, of: (one: Answer) => number | undefined) => {
    const [ours = Number.NaN, theirs = Number.NaN] = [of(own), of(other)];
    if (!(theirs >= ours * 1.05 && theirs > 0)) return [];
    return `${words}${ours === 0 ? "" : ` ${(theirs / ours).toFixed(1)}×`}`;
  };
  return [
    less("first token sooner", ({ firstMs }) => firstMs),
    less("faster", ({ totalMs }) => totalMs),
    less("cheaper", ({ usage }) => usage?.cost),
  ].flat();
}

/** @param other the answer beside it @param persona the id of the persona that answers to its name, once that is known */
export function AnswerView({
  answer,
  other,
  persona,
}: {
  readonly answer: Answer;
  readonly other: Answer | undefined;
  readonly persona: string | undefined;
}) {
  const { state, text, thinking, tools, images, finish, firstMs, totalMs, usage, headers, error, metadata } = answer;
  const name = String(answer.body["model"]);
  const header = (of: string) => headers?.get(`x-${of}`) ?? undefined;
  const requestId = header("request-id") ?? error?.requestId;
  // An alias names none.
  const named = header("troupe-persona-version") && name.includes("/") ? name.split("@")[0] : undefined;
  const { prompt_tokens: input, completion_tokens: output, cost } = usage ?? {};
  return (
    <section class="panel said" aria-label={`Answer of ${name}`} aria-busy={state === "open"}>
      <Bar>
        <Badge tone={tones[state]}>{states[state]}</Badge>
        <code>{name}</code>
        {finish !== undefined && finish !== "stop" && <Badge tone="warn">{finish}</Badge>}
        {betterThan(other, answer).map((words) => (
          <Badge key={words} tone="ok">
            {words}
          </Badge>
        ))}
        <div class="actions">
          {text !== "" && <Copy text={text} />}
          {state === "done" && <KeepTest answer={answer} persona={persona ?? named} />}
        </div>
      </Bar>
      {thinking !== "" && (
        <details class="muted" open={text === ""}>
          <summary>Thinking</summary>
          <div class="thinking">{thinking}</div>
        </details>
      )}
      {text !== "" && <Markdown text={text} growing={state === "open"} />}
      {tools.map((tool, at) => (
        <div key={at}>
          Calls <code>{tool.name}</code>
          <Code text={pretty(tool.args)} language="json" label={`Arguments of ${tool.name}`} />
        </div>
      ))}
      {metadata["mcp_calls"] !== undefined && (
        <details>
          <summary>Tools that the server called</summary>
          <Code text={pretty(metadata["mcp_calls"])} language="json" label="Tools that the server called" />
        </details>
      )}
      {images.map((url, at) =>
        ownPicture.test(url) ? (
          <img key={at} src={url} alt={`Made by ${name}`} />
        ) : (
          <code key={at}>{url.slice(0, 200)}</code>
        ),
      )}
      {error !== undefined && (
        <>
          <Failure error={error} />
          <p>{adviceOf(error)}</p>
        </>
      )}
      {state !== "open" && (
        <Facts
          items={[
            ["First token", firstMs === undefined ? undefined : duration(firstMs)],
            ["Whole answer", duration(totalMs)],
            ["Tokens", input === undefined ? undefined : `${count(input)} in, ${count(output ?? 0)} out`],
            ["Cost", cost === undefined ? (state === "done" ? "unknown" : undefined) : exactMoney(cost * 1e6)],
            [
              "Answered by",
              header("troupe-provider") && `${header("troupe-provider")}/${header("troupe-upstream-model")}`,
            ],
            ["Persona version", header("troupe-persona-version")],
            ["Variant", header("troupe-persona-variant")],
            ["Call", requestId ? <Request key="call" id={requestId} /> : undefined],
          ]}
        />
      )}
    </section>
  );
}
