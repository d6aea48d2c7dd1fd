import type { PathPart } from "../lib/json/schema-errors.ts";

/** Reports a validation error. @param message a sentence without its subject, which is the value at the path */
export type FaultReporter = (path: readonly PathPart[], message: string) => void;

/** The origin of a value: a place in the file, a variable, a flag. */
export type ValueOrigin = { readonly where: "file" | "environment" | "command line"; readonly name: string };
