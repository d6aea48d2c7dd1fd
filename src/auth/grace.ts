/** The longest time for which an old secret is taken beside the new one, in milliseconds. */
import { dayMs } from "../lib/time/duration.ts";

export const maxGraceMs = 30 * dayMs;
