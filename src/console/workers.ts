/** Of which processes an answer is. */

import type { Workers } from "../api/providers.ts";

export const serverWords = (workers: Workers): string =>
  workers === null ? "this server" : `${workers.answered} of ${workers.workers ?? "?"} workers of this server`;
