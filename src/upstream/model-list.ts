/** Asks one provider for its list of models, within bounds: no list of an upstream's may cost more than its place in memory. */

import { parseJson } from "../lib/json/json.ts";
import { folded } from "../lib/streams/flow.ts";
import type { Clock } from "../lib/time/clock.ts";
import { InvalidAnswer } from "../protocols/errors.ts";
import type { ListedModel, ModelListFormat, ModelListPage } from "../providers/provider.ts";
import type { BoundAccount } from "./accounts.ts";
import type { Upstream, UpstreamAnswer } from "./client.ts";

/** Error of a list that did not come, in words that may be logged and shown. */
export class ModelListError extends Error {
  override readonly name = "ModelListError";
}

const maxPageBytes = 8 * 1024 * 1024;
const maxPages = 20;
export const maxModels = 5_000;
const maxNameLength = 200;

type ListTools = { readonly upstream: Upstream; readonly clock: Clock };

type ListLimits = {
  /** Of all pages together. */
  readonly deadlineMs: number;
  /** Ends it before. */
  readonly signal?: AbortSignal;
};

/**
 * @returns models by their first mention; names that could not stand in an id are left out
 * @throws ModelListError
 */
async function askModelList(
  { upstream, clock }: ListTools,
  bound: BoundAccount,
  format: ModelListFormat,
  { deadlineMs, signal }: ListLimits,
): Promise<ListedModel[]> {
  const controller = new AbortController();
  const cancelTimer = clock.setTimer(deadlineMs, () => controller.abort());
  const ended = signal === undefined ? controller.signal : AbortSignal.any([controller.signal, signal]);
  const found = new Map<string, ListedModel>();
  const seen = new Set<string>();
  try {
    for (let after: string | undefined; ; ) {
      const answer = await upstream.send(format.request(bound.account, after), bound, ended);
      const page = await readPage(answer, format);
      for (const model of page.models) if (isName(model.id) && !found.has(model.id)) found.set(model.id, model);
      if (found.size > maxModels) throw new ModelListError(`it lists more than ${maxModels} models`);
      if (page.next === undefined) return [...found.values()];
      after = page.next;
      if (seen.has(after) || seen.size >= maxPages - 1) throw new ModelListError("its pages have no end");
      seen.add(after);
    }
  } catch (error) {
    if (controller.signal.aborted) throw new ModelListError(`it took longer than ${deadlineMs / 1000} s`);
    if (error instanceof ModelListError) throw error;
    throw new ModelListError((error as Error).message);
  } finally {
    cancelTimer();
  }
}

/** Keys of one account that are tried for its list. */
const maxTries = 4;

/** Asks with each of an account's keys in turn, until one gives the list. @throws ModelListError of the last one that was tried */
export function askAccount(
  tools: ListTools,
  bound: BoundAccount,
  format: ModelListFormat,
  limits: ListLimits,
): Promise<ListedModel[]> {
  const [first = bound, ...others] = bound.pool?.members ?? [];
  let asked = askModelList(tools, first, format, limits);
  for (const other of others.slice(0, maxTries - 1))
    asked = asked.catch(() => askModelList(tools, other, format, limits));
  return asked;
}

/** Without white space and control characters, which no id of ours has. */
const isName = (id: string): boolean => id.length <= maxNameLength && /^[\x21-\x7e]+$/.test(id);

async function readPage(answer: UpstreamAnswer, format: ModelListFormat): Promise<ModelListPage> {
  if (answer.status !== 200) {
    answer.cancel();
    throw new ModelListError(`it answers with the status ${answer.status}`);
  }
  const pieces: Buffer[] = [];
  let size = 0;
  const text = await folded(answer, {
    push(bytes) {
      size += bytes.byteLength;
      if (size > maxPageBytes) throw new ModelListError(`its list is larger than ${maxPageBytes / 1024 ** 2} MiB`);
      pieces.push(bytes);
    },
    end: () => Buffer.concat(pieces).toString(),
  });
  const body = parseJson(text);
  if (body === undefined) throw new ModelListError("its list is no JSON");
  try {
    return format.page(body);
  } catch (error) {
    if (error instanceof InvalidAnswer) throw new ModelListError("it answers with something else than a list");
    throw error;
  }
}
