/** Where the answers of tests come from: a server, or recordings. */
import { isObject, listOf, numberOf, objectOf, parseJson, textOf } from "../../lib/json/json.ts";
import { compose } from "../../personas/compose/compose.ts";
import type { Additions } from "../../personas/knowledge/additions.ts";
import type { Persona } from "../../personas/persona.ts";
import type { McpCall, TestAnswer } from "../../personas/suites/answer.ts";
import { NotJudged } from "../../personas/suites/not-judged.ts";
import {
  answerFrom,
  changesBetween,
  gradeIn,
  type RecordedAnswer,
  type Recording,
  recordingKey,
  renderedFor,
  renderedRequest,
} from "../../personas/suites/recording.ts";
import { type Grade, gradingMessages, parseGrade } from "../../personas/suites/rubric.ts";
import { type Assertion, requestOf, type TestCase } from "../../personas/suites/suite.ts";
import { callsMember } from "../../protocols/added-metadata.ts";
import type { ChatRequest, ToolCall } from "../../protocols/chat/schema.ts";
import { ApiError } from "../../protocols/errors.ts";

/** A test with its persona, and what that makes of it. */
export type PreparedTest = {
  readonly test: TestCase;
  readonly persona: Persona;
  readonly file: string;
  /** Without a model. */
  readonly request: ChatRequest;
  /** What the persona makes of it, for its models. */
  readonly rendered: Readonly<Record<string, unknown>>;
};

/** @param additions of its knowledge and lorebook @throws ApiError for a request that the persona refuses */
export function prepare(test: TestCase, persona: Persona, file: string, additions?: Additions): PreparedTest {
  const request = { model: persona.id, ...requestOf(test, persona.variables.keys()) } as unknown as ChatRequest;
  return { test, persona, file, request, rendered: renderedRequest(persona, compose(persona, request, additions)) };
}

type Graded = Grade & { readonly cost?: number };

export interface Answers {
  /** @param repetition counted from 0 @throws NotJudged */
  answer(prepared: PreparedTest, repetition: number): Promise<TestAnswer>;
  /** @param output of the answer of that repetition @throws NotJudged */
  grade(prepared: PreparedTest, repetition: number, assertion: Assertion, output: string): Promise<Graded>;
}

export type TestedServer = {
  /** Without a trailing slash. */
  readonly url: string;
  readonly key: string;
  readonly fetchOptions: { readonly unix?: string };
};

/** Another try follows after these: the upstream, or the server, was busy. */
const busyStatuses = new Set([429, 502, 503, 504, 529]);
const maxTries = 3;
const maxWaitSeconds = 30;

/** Posts a chat completion. @param base `/v1` for personas, `/gateway/v1` for models @throws NotJudged */
export type Send = (base: string, body: string) => Promise<Response>;

export class LiveAnswers implements Answers {
  readonly #send: Send;
  readonly #modelOf: (persona: string) => string;
  readonly #isPersona: (id: string) => boolean;

  /** @param modelOf gives the model to be asked for a persona, such as one of its versions */
  constructor(asked: TestedServer | Send, modelOf: (persona: string) => string, isPersona: (id: string) => boolean) {
    this.#send = typeof asked === "function" ? asked : (base, body) => postTo(asked, base, body);
    this.#modelOf = modelOf;
    this.#isPersona = isPersona;
  }

  answer({ request, persona }: PreparedTest): Promise<TestAnswer> {
    return this.#complete("/v1", { ...request, model: this.#modelOf(persona.id) });
  }

  async grade(_prepared: PreparedTest, _repetition: number, assertion: Assertion, output: string): Promise<Graded> {
    const { model, fields } = assertion.grader!;
    const messages = gradingMessages(assertion.value as string, output);
    const base = this.#isPersona(model) ? "/v1" : "/gateway/v1";
    const answer = await this.#complete(base, { ...fields, model, messages }).catch((error: unknown) => {
      if (error instanceof NotJudged) throw new NotJudged(`the grader ${model}: ${error.message}`);
      throw error;
    });
    const grade = parseGrade(answer.content ?? "");
    return answer.cost === undefined ? grade : { ...grade, cost: answer.cost };
  }

  async #complete(base: string, body: object): Promise<TestAnswer> {
    const text = JSON.stringify({ ...body, usage: { include: true } });
    for (let tries = 1; ; tries += 1) {
      const begun = performance.now();
      const response = await this.#send(base, text);
      const answered = await response.text().catch((error: Error) => {
        throw new NotJudged(`the answer broke off: ${error.message}`);
      });
      const latencyMs = Math.round(performance.now() - begun);
      if (response.ok) return answerOf(answered, latencyMs, response.headers);
      if (!busyStatuses.has(response.status) || tries === maxTries)
        throw new NotJudged(`${response.status}: ${messageIn(answered)}`);
      await Bun.sleep(waitOf(response.headers, tries) * 1000);
    }
  }
}

async function postTo({ url, key, fetchOptions }: TestedServer, base: string, body: string): Promise<Response> {
  try {
    return await fetch(`${url}${base}/chat/completions`, {
      ...fetchOptions,
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
      body,
      redirect: "manual",
      // The server bounds the time of its calls.
      timeout: false,
    } as RequestInit);
  } catch (error) {
    throw new NotJudged(`the server at ${url} can't be asked: ${(error as Error).message}`);
  }
}

function waitOf(headers: Headers, tries: number): number {
  const said = Number(headers.get("retry-after") ?? Number.NaN);
  return Math.min(maxWaitSeconds, Number.isFinite(said) && said >= 0 ? said : tries);
}

function messageIn(text: string): string {
  const error = objectOf(objectOf(parseJson(text))?.["error"]);
  return (textOf(error?.["message"]) ?? text).slice(0, 500);
}

function answerOf(text: string, latencyMs: number, headers: Headers): TestAnswer {
  const body = objectOf(parseJson(text));
  const choice = objectOf(listOf(body?.["choices"])[0]);
  const message = objectOf(choice?.["message"]);
  if (message === undefined) throw new NotJudged(`the answer is no chat completion: ${text.slice(0, 200)}`);
  const calls = listOf(message["tool_calls"]).filter(
    (call): call is ToolCall => isObject(call) && isObject(call["function"]),
  );
  const usage = objectOf(body?.["usage"]);
  const refusal = textOf(message["refusal"]);
  const finishReason = textOf(choice?.["finish_reason"]);
  const cost = numberOf(usage?.["cost"]);
  const version = headers.get("x-troupe-persona-version");
  const mcp = mcpIn(textOf(objectOf(body?.["metadata"])?.[callsMember]));
  return {
    ...(version !== null && { version }),
    content: textOf(message["content"]) ?? null,
    ...(refusal !== undefined && { refusal }),
    ...(calls.length > 0 && { toolCalls: calls }),
    ...(mcp !== undefined && { mcp }),
    ...(finishReason !== undefined && { finishReason }),
    ...(usage !== undefined && {
      usage: { prompt: numberOf(usage["prompt_tokens"]) ?? 0, completion: numberOf(usage["completion_tokens"]) ?? 0 },
    }),
    ...(cost !== undefined && { cost }),
    latencyMs,
  };
}

/** @param calls as an answer's metadata has them */
function mcpIn(calls: string | undefined): TestAnswer["mcp"] {
  if (calls === undefined) return undefined;
  const listed = listOf(parseJson(calls)).filter(isObject);
  return {
    calls: listed.flatMap((call): McpCall[] => {
      const [server, tool] = [textOf(call["server"]), textOf(call["tool"])];
      if (server === undefined || tool === undefined) return [];
      return [{ server, tool, arguments: textOf(call["arguments"]) ?? "", isError: call["is_error"] === true }];
    }),
    omitted: listed.reduce((sum, one) => sum + (numberOf(one["omitted"]) ?? 0), 0),
  };
}

/** Recordings by the path of their test file, and within it by `recordingKey`; of a file that can't be read, why. */
export type Recordings = ReadonlyMap<string, ReadonlyMap<string, Recording> | string>;

const again = "'troupe personas test --record' makes one";
const missing = "there is no recording of this test";
const outdated = "the request has changed since it was recorded";

/** True for the reason of a verdict that only a new recording gives. */
export const wantsRecording = (reason: string): boolean => reason.startsWith(missing) || reason.startsWith(outdated);

/** Answers from recordings, without any network. */
export class ReplayedAnswers implements Answers {
  readonly #recordings: Recordings;
  readonly #model: string | undefined;

  /** @param model that answered in place of the personas' own */
  constructor(recordings: Recordings, model?: string) {
    this.#recordings = recordings;
    this.#model = model;
  }

  async answer(prepared: PreparedTest, repetition: number): Promise<TestAnswer> {
    return answerFrom(this.#recorded(prepared, repetition));
  }

  async grade(prepared: PreparedTest, repetition: number, assertion: Assertion): Promise<Graded> {
    const { model } = assertion.grader!;
    const grade = gradeIn(this.#recorded(prepared, repetition), model, assertion.value as string);
    if (grade === undefined) throw new NotJudged(`there is no recorded grade by ${model} for this rubric; ${again}`);
    return grade;
  }

  #recorded({ file, test, rendered }: PreparedTest, repetition: number): RecordedAnswer {
    const recordings = this.#recordings.get(file);
    if (typeof recordings === "string") throw new NotJudged(recordings);
    const recording = recordings?.get(recordingKey(test.name, this.#model));
    if (recording === undefined) throw new NotJudged(this.#model === undefined ? `${missing}; ${again}` : this.#lost());
    const changes = changesBetween(recording.request, renderedFor(rendered, this.#model));
    if (changes.length > 0)
      throw new NotJudged(`${outdated}: ${changes.join("; ")}; 'troupe personas test --record' records it anew`);
    const answer = recording.answers[repetition];
    if (answer === undefined)
      throw new NotJudged(
        `${recording.answers.length} ${recording.answers.length === 1 ? "answer is" : "answers are"} recorded, and ${repetition + 1} are needed; 'troupe personas test --record' records them`,
      );
    return answer;
  }

  #lost(): string {
    return `${missing} by ${this.#model}; 'troupe personas test --models ${this.#model} --record' makes one`;
  }
}

/** @returns what a persona finds wrong with a request; anything else is thrown */
export function refusalOf(error: unknown): string {
  if (error instanceof ApiError) return error.message;
  throw error;
}
