/** The playground: one conversation with one or two models or personas, side by side. */
import { useRef } from "preact/hooks";
import { type ApiFailure, get } from "../api.ts";
import { useResource } from "../data.ts";
import { href, route, setQuery } from "../router.ts";
import { Button, Field, TextArea } from "../ui/form.tsx";
import { Bar, Columns, Page, Panel } from "../ui/layout.tsx";
import { Empty, Failure } from "../ui/states.tsx";
import { type PersonaDetails, pathOf } from "./personas/types.ts";
import "./playground.css";
import { AnswerView } from "./playground/answer.tsx";
import { call, type Json, messagesOf, type Turn } from "./playground/call.ts";
import { Choice, keepRecent, personaOf } from "./playground/choice.tsx";
import { How } from "./playground/how.tsx";
import { PictureInput } from "./playground/picture.tsx";
import { Sent } from "./playground/sent.tsx";
import { SettingsPanel } from "./playground/settings.tsx";
import {
  answers,
  calling,
  draft,
  parametersOf,
  setAnswer,
  settings,
  startAnew,
  toolsFault,
  turns,
} from "./playground/state.ts";
import { type Pending, ToolAnswers } from "./playground/tool-answers.tsx";

/** @property at which of the two it is, from 0 */
type Column = { readonly at: number; readonly model: string; readonly persona: PersonaDetails | undefined };

const names = ["model", "b"] as const;

function givenAt(column: number, turn: number) {
  const answer = answers.value[column]?.[turn];
  return answer && { answer, column };
}

/** The conversation as one of the columns has it; what only the other answered stands for both. */
function bodyOf({ at: column, model, persona }: Column, all: readonly Turn[]): Json {
  const own = all.map((_, at) => givenAt(column, at) ?? givenAt(1 - column, at));
  const { system } = settings.value;
  const first = persona === undefined && system !== "" ? [{ role: "system", content: system }] : [];
  return {
    model,
    messages: [...first, ...messagesOf(all, own)],
    ...parametersOf(persona && Object.keys(persona.variables)),
  };
}

function send(all: readonly Column[], turn: Turn): void {
  const { results } = turn;
  const columns = all.filter(({ at }) => results === undefined || results[at] !== undefined);
  const conversation = [...turns.value, turn];
  const at = conversation.length - 1;
  const ending = new AbortController();
  const bodies = columns.map((column) => bodyOf(column, conversation));
  turns.value = conversation;
  for (const { model } of columns) keepRecent(model);
  if (results === undefined) draft.value = { text: "" };
  calling.value = ending;
  const calls = bodies.map((body, index) =>
    // What was begun anew meanwhile has another conversation.
    call(body, ending.signal, (answer) => turns.value[at] === turn && setAnswer(columns[index]!.at, at, answer)),
  );
  void Promise.all(calls).then(() => {
    if (calling.value === ending) calling.value = undefined;
  });
}

/** What was given to the calls of the turn before. */
const Gave = ({ results, turn }: { readonly results: NonNullable<Turn["results"]>; readonly turn: number }) => (
  <>
    {results.map((gave, column) =>
      answers.value[column]?.[turn - 1]?.tools.map(({ id, name }) => (
        <div key={`${column} ${id}`}>
          <code>{name}</code> gave {gave?.[id]}
        </div>
      )),
    )}
  </>
);

function Conversation({ columns }: { readonly columns: readonly Column[] }) {
  return (
    <>
      {turns.value.map(({ text, image, results }, at) => (
        <section key={at} aria-label={`Turn ${at + 1}`} class="turn">
          <div class="asked">
            {image !== undefined && <img src={image} alt="What you sent" />}
            {text}
            {results && <Gave results={results} turn={at} />}
          </div>
          <Columns>
            {answers.value.map((own, column) => {
              const answer = own[at];
              return (
                answer && (
                  <AnswerView
                    key={column}
                    answer={answer}
                    other={answers.value[1 - column]?.[at]}
                    persona={columns.find(({ model }) => model === answer.body["model"])?.persona?.id}
                  />
                )
              );
            })}
          </Columns>
        </section>
      ))}
    </>
  );
}

/** @returns why nothing can be sent; undefined: it can */
function whyNot(columns: readonly Column[], isLoaded: boolean): string | undefined {
  const { text, image } = draft.value;
  if (calling.value !== undefined) return "An answer is under way.";
  if (columns.length === 0) return "Choose a model or a persona first.";
  if (!isLoaded) return "Looking who answers to that name…";
  if (toolsFault(settings.value.tools) !== undefined) return "Mend the tools first: they are no JSON list.";
  return text.trim() === "" && image === undefined ? "Write a question first." : undefined;
}

type ComposerProps = { readonly columns: readonly Column[]; readonly isLoaded: boolean };

function Composer({ columns, isLoaded }: ComposerProps) {
  const form = useRef<HTMLFormElement>(null);
  const { text } = draft.value;
  const isBusy = calling.value !== undefined;
  const isPossible = !isBusy && isLoaded && columns.length > 0 && toolsFault(settings.value.tools) === undefined;
  const why = whyNot(columns, isLoaded);
  const isReady = why === undefined;
  const pending = columns.flatMap(({ at: column, model }): Pending | [] => {
    const { tools = [], state } = answers.value[column]?.[turns.value.length - 1] ?? {};
    return state === "done" && tools.length > 0 ? { column, name: model, tools } : [];
  });
  return (
    <>
      {pending.length > 0 && (
        <ToolAnswers pending={pending} isReady={isPossible} onSend={(turn) => send(columns, turn)} />
      )}
      <form
        class="panel composer"
        ref={form}
        onSubmit={(event) => {
          event.preventDefault();
          if (isReady) send(columns, { ...draft.value });
        }}
      >
        <Field label={turns.value.length === 0 ? "Your question" : "And next"} hint="Ctrl and Enter send it.">
          <TextArea
            value={text}
            rows={3}
            sends
            onInput={(value) => {
              draft.value = { ...draft.value, text: value };
            }}
          />
        </Field>
        <Bar>
          <Button type="submit" tone="primary" disabled={!isReady}>
            Send
          </Button>
          <Button onClick={() => calling.value?.abort()} disabled={!isBusy}>
            Stop
          </Button>
          <PictureInput />
          {turns.value.length > 0 && <Button onClick={startAnew}>Start anew</Button>}
          {why !== undefined && !isBusy && <small class="muted why-not">{why}</small>}
        </Bar>
      </form>
    </>
  );
}

/** The persona that answers to a name; undefined: it is a model, or a version of a persona that is gone. */
async function detailsOf(model: string, signal: AbortSignal): Promise<PersonaDetails | undefined> {
  const id = await personaOf(model, signal);
  if (id === undefined) return undefined;
  return get<PersonaDetails>(pathOf(id), {}, { signal }).catch((error) => {
    if ((error as ApiFailure).status !== 404) throw error;
    return undefined;
  });
}

export function PlaygroundPage() {
  const { query } = route.value;
  const chosen = names.map((name) => query.get(name) ?? "");
  const isCompared = query.has("compare") || query.has("b");
  const shown = isCompared ? chosen : chosen.slice(0, 1);
  const details = useResource((signal) => Promise.all(shown.map((model) => detailsOf(model, signal))), [shown]);
  const columns = shown
    .map((model, at): Column => ({ at, model, persona: details.data?.[at] }))
    .filter(({ model }) => model !== "");
  const isLoaded = details.data !== undefined;
  const last = turns.value.length - 1;
  const errors = answers.value.flatMap((own) => own[last]?.error ?? []);
  const { text, image } = draft.value;
  // What is written, else what was sent last.
  const shownTurns =
    text !== "" || image !== undefined || last < 0 ? [...turns.value, { text: text || "Hello!", image }] : turns.value;
  const bodies = columns.map((column) => bodyOf(column, shownTurns));
  return (
    <Page title="Playground" note="Its calls are the signed-in key's, in its limits and budgets and in the ledger.">
      {details.error !== undefined && <Failure error={details.error} retry={details.reload} />}
      <Panel
        title={isCompared ? "Models, side by side" : "Model"}
        actions={
          <Button
            pressed={isCompared}
            onClick={() => setQuery(isCompared ? { b: undefined, compare: undefined } : { compare: "true" })}
          >
            Compare two
          </Button>
        }
      >
        <Columns>
          {shown.map((model, at) => (
            <Choice
              key={names[at]}
              label={`Model or persona${isCompared ? ` ${at + 1}` : ""}`}
              model={model}
              persona={details.data?.[at]?.id}
              error={
                answers.value[at]?.[last]?.error?.param === "model" ? answers.value[at][last].error.message : undefined
              }
              onChange={(next) => setQuery({ [names[at]!]: next })}
            />
          ))}
        </Columns>
      </Panel>
      <div class="asking">
        <div class="listed">
          <Conversation columns={columns} />
          {columns.length === 0 && (
            <Empty title="Choose a model or a persona to ask.">
              All of them: <a href={href("personas")}>personas</a>,{" "}
              <a href={href("providers")}>providers and their models</a>.
            </Empty>
          )}
          <Composer columns={columns} isLoaded={isLoaded} />
        </div>
        <SettingsPanel
          variables={Object.assign({}, ...columns.map(({ persona }) => persona?.variables ?? {}))}
          hasModel={columns.some(({ persona }) => persona === undefined)}
          errors={errors}
        />
      </div>
      <p class="unseen" role="status">
        {calling.value !== undefined ? "Answering." : last >= 0 ? "Answered." : ""}
      </p>
      <Columns>
        {bodies.map((body, at) => (
          <Sent key={at} body={body} />
        ))}
        {bodies.map((body, at) => (
          <How key={at} body={body} isPersona={columns[at]!.persona !== undefined} />
        ))}
      </Columns>
    </Page>
  );
}
