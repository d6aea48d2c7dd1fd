/** How commands are declared: their arguments and options, and those that several have. */
import { Argument, type Command, Option } from "commander";
import { collectedFields, collectedTexts } from "./arguments.ts";
import type { ActionName } from "./command.ts";

/** Arguments and options of a command, in the order of its help. Text stands behind the help. */
type Part = Argument | Option | string;

/** The flags that most commands read. */
export const stored = ["config", "data"] as const;

export const argument = <T>(name: string, description: string, parse?: (text: string) => T): Argument =>
  parse === undefined ? new Argument(name, description) : new Argument(name, description).argParser(parse);

export const option = <T>(flags: string, description: string, parse?: (text: string, before: T) => T): Option =>
  parse === undefined ? new Option(flags, description) : new Option(flags, description).argParser(parse);

/** Declares commands of one group, by what they do. */
export type Declare = (name: string, description: string, action: ActionName, ...parts: readonly Part[]) => Command;

export const json = option("--json", "Answer in JSON");
/** Flags of commands that ask a persona. */
export const variablesOption = option(
  "--variables <name=value...>",
  "Values of the persona's variables",
  collectedTexts,
);
export const setFields = option(
  "--set <field=value>",
  "A field of the request, as JSON or text, such as temperature=0.2; again for more",
  collectedFields,
);
