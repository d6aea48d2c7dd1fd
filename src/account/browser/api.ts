/** What the page asks of its server. Addresses are relative, for proxies with a prefix. */
import type { Account } from "../../api/account.ts";

export type { Account } from "../../api/account.ts";
export type Budget = Account["budgets"][number];
export type Model = Account["models"]["data"][number];
export type FailedCall = Account["failed"][number];

/** An answer that is an error, in the server's words. */
export class Refused extends Error {
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** @throws Refused; TypeError where the server does not answer */
export async function ask<T>(path: string, method = "GET", body?: object): Promise<T> {
  const answer = await fetch(`account/${path}`, {
    method,
    ...(body !== undefined && { headers: { "content-type": "application/json" }, body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  if (answer.ok) return JSON.parse(text) as T;
  throw refusedBy(answer.status, text);
}

function refusedBy(status: number, text: string): Refused {
  try {
    const { error } = JSON.parse(text) as { readonly error: { readonly code?: string; readonly message: string } };
    return new Refused(status, error.code ?? "", error.message);
  } catch {
    return new Refused(status, "", `The server answered ${status}.`);
  }
}

export const wordsOf = (error: unknown): string =>
  error instanceof Refused ? error.message : "The server does not answer. Try again in a moment.";
