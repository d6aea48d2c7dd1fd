/** Reports a command that failed, and gives its exit code. */
import { CommanderError } from "commander";
import { KeyError } from "../../auth/key-lookup.ts";
import { withoutKeys } from "../../auth/key-secret.ts";
import { KeySpecError } from "../../auth/key-spec.ts";
import type { Io } from "../../lib/process/io.ts";
import { ApiError } from "../../protocols/errors.ts";
import { DataError } from "../../store/contract/data-error.ts";
import { StorageError } from "../../store/contract/storage-error.ts";
import { CommandError, type ExitCode, UsageError, usageError } from "../context.ts";

/** @param hint where a wrong use is explained @throws the error, where nobody expected it */
export function reportFailure(error: unknown, { stderr }: Io, hint = ""): ExitCode {
  // Its message is written already.
  if (error instanceof CommanderError) return usageError;
  if (!isExpected(error)) throw error;
  stderr.write(`error: ${withoutKeys(error instanceof ApiError ? wordsOf(error) : error.message)}\n`);
  if (!isWrongUse(error)) return 1;
  if (hint !== "") stderr.write(`${hint}\n`);
  return usageError;
}

/** What an act refuses names its field; the flag is called the same. */
const wordsOf = ({ param, message }: ApiError) =>
  message.startsWith(`${param}: `) ? `--${param.replaceAll("_", "-")}${message.slice(param.length)}` : message;

const isWrongUse = (error: Error) =>
  error instanceof UsageError ||
  error instanceof KeySpecError ||
  (error instanceof ApiError && error.code === "invalid_value");

const isExpected = (error: unknown): error is Error =>
  [ApiError, CommandError, UsageError, DataError, KeyError, StorageError].some((kind) => error instanceof kind);
