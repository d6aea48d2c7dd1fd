/** Of which processes an answer is. */

/** As the admin API counts them; null: the server is one process. */
export type Workers = { readonly workers: number | null; readonly answered: number } | null;

export const serverWords = (workers: Workers): string =>
  workers === null ? "this server" : `${workers.answered} of ${workers.workers ?? "?"} workers of this server`;
