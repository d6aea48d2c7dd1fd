/** Resolves a model's name and a request to a target: an account and the call to make there. */

import { isPlainText } from "../lib/text/plain-text.ts";
import { truncate } from "../lib/text/truncate.ts";
import type { Source } from "../protocols/body/source.ts";
import { splitExtras } from "../protocols/chat/extras.ts";
import { upgradeLegacy } from "../protocols/chat/legacy-functions.ts";
import type { ChatRequest } from "../protocols/chat/schema.ts";
import { ApiError } from "../protocols/errors.ts";
import { leadsElsewhere, parseModelId } from "../protocols/model-id.ts";
import type { Call } from "../providers/provider.ts";
import type { Accounts, BoundAccount } from "./accounts.ts";

export type Target = BoundAccount & {
  readonly call: Call;
  /** The caller used the deprecated `functions`, so the answer uses it too. */
  readonly legacyFunctions: boolean;
};

/** How the caller named a model. */
export type Naming = {
  /** Whether an error message may name that provider to the caller; absent: every one. */
  readonly mayName?: (provider: string) => boolean;
  /** True where the caller named a persona. */
  readonly isPersonas?: boolean;
};

/**
 * @param modelId `<provider>/<model>`
 * @param request with the earlier turns of its conversation, and no `previous_response_id`
 * @param source the request as sent
 * @throws ApiError unknown_provider, or invalid_value for an extra option of wrong type
 */
export function resolveTarget(
  accounts: Accounts,
  modelId: string,
  request: ChatRequest,
  source?: Source,
  { mayName, isPersonas = false }: Naming = {},
): Target {
  const { bound, name } = resolveModel(accounts, modelId, mayName);
  const { account, provider, namespaces } = bound;
  const { request: plain, extras } = splitExtras(request, namespaces, provider.extras, accounts.catalog);
  const upgraded = upgradeLegacy(plain);
  const call: Call = { model: name, request: upgraded, source, extras, account, media: noMedia };
  if (isPersonas) return targetAt(bound, { ...call, isPersonas }, plain.functions !== undefined);
  return targetAt(bound, call, plain.functions !== undefined);
}

/** The target of a call at an account. Its members are named, as a copy of all of one takes three times as long. */
export function targetAt<C extends Call>(
  { account, provider, credentials, timeouts, namespaces, models, member, weight, pool }: BoundAccount,
  call: C,
  legacyFunctions: boolean,
): Target & { readonly call: C } {
  return {
    account,
    provider,
    credentials,
    timeouts,
    namespaces,
    models,
    member,
    weight,
    pool,
    legacyFunctions,
    call,
  };
}

/**
 * @param modelId `<provider>/<model>`
 * @param mayName whether an error message may name that provider to the caller
 * @returns the account, and the upstream's own name of the model
 * @throws ApiError unknown_provider
 */
export function resolveModel(
  accounts: Accounts,
  modelId: string,
  mayName: (provider: string) => boolean = () => true,
): { readonly bound: BoundAccount; readonly name: string } {
  if (!isPlainText(modelId)) throw ApiError.invalidValue("model", "model must not hold control characters.");
  const id = parseModelId(modelId);
  const bound = id === undefined ? undefined : accounts.find(id.namespace);
  if (id === undefined || bound === undefined)
    throw ApiError.unknownProvider(explainUnknown(accounts, modelId, mayName), modelId);
  if (leadsElsewhere(id.name)) throw ApiError.unknownProvider(`'${truncate(modelId)}' names no model.`, modelId);
  return { bound, name: id.name };
}

const noMedia: Call["media"] = new Map();

function explainUnknown(accounts: Accounts, modelId: string, mayName: (provider: string) => boolean): string {
  const known = accounts.list().flatMap(({ account: { name } }) => (mayName(name) ? [name] : []));
  const list = known.length === 0 ? "" : `; providers set up here: ${known.join(", ")}`;
  const asked = truncate(modelId);
  const reason =
    parseModelId(modelId) === undefined ? `'${asked}' names no provider.` : `No provider is set up for '${asked}'.`;
  return `${reason} Name it as <provider>/<model>${list}.`;
}
