/** What a rule of persona files finds. */
import type { PathPart } from "../../lib/json/schema-errors.ts";

export type RuleError = {
  readonly path: readonly PathPart[];
  /** A sentence without its subject. */
  readonly message: string;
  /** The place of the error: the key at that path, a mark in the text there (by its number), or by default the value. */
  readonly at?: "key" | number;
};

export type RuleErrors = Generator<RuleError, void>;
