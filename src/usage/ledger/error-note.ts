/** What the ledger keeps of an error: its code, and as much of its text as may be kept. */
import { hideSecrets } from "../../lib/process/log.ts";
import { ApiError } from "../../protocols/errors.ts";
import type { Outcome } from "../attempt.ts";

export type ErrorNote = { readonly errorCode: string | null; readonly errorText: string | null };

/** In UTF-16 code units. */
const maxText = 300;
/** Of a text in which secrets are looked for before it is cut, as a part of one is no less secret. */
const maxLooked = 16_384;

/** @param param the place in the request @param message absent: it may quote what people wrote */
export function errorNote(errorCode: string | null, param: unknown, message?: string): ErrorNote {
  // A path has no spaces: what has some may be a value.
  const place = typeof param === "string" && /^[\w.:/[\]-]{1,64}$/.test(param) ? param : "";
  const said = hideSecrets((message ?? "").slice(0, maxLooked)).replaceAll(/[\s\p{Cc}]+/gu, " ");
  const text = (place === "" || said.includes(place) ? [said] : [place, said]).filter(Boolean).join(": ") || place;
  return { errorCode, errorText: text === "" ? null : text.trim().slice(0, maxText).toWellFormed() };
}

/** Our own errors' messages quote callers below 500, so what is kept as it was said is what failed on our side, and what a budget has left. */
export const ownErrorNote = (error: unknown): ErrorNote =>
  error instanceof ApiError
    ? errorNote(
        error.code,
        error.param,
        error.status >= 500 || error.code === "insufficient_quota" ? error.message : undefined,
      )
    : errorNote("internal_error", "");

/** The end of a request that is refused before any upstream is asked. */
export const refusedBy = (error: unknown): Outcome => ({
  ended: "refused",
  status: error instanceof ApiError ? error.status : 500,
  ...ownErrorNote(error),
});
