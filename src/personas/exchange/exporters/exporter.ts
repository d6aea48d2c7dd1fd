import type { PersonaContent } from "../../file/schema.ts";
import type { Omission, Omissions } from "../importers/draft.ts";

/** A persona to write in another form. */
export type Subject = {
  /** `<namespace>/<name>`. */
  readonly id: string;
  /** Its file, with includes in place. */
  readonly content: PersonaContent;
  /** The bytes of its avatar, where that is a file. */
  readonly avatar?: Uint8Array;
};

export type Exported = {
  readonly content: string | Uint8Array;
  /** What the other form has no place for. */
  readonly omitted: readonly Omission[];
};

/** A form that other programs read. Pure: a persona in, a file's content out. */
export type Exporter = {
  /** What `--format` calls it. */
  readonly format: string;
  /** For people. */
  readonly title: string;
  /** Of the file, with its dot. */
  readonly extension: string;
  write(subject: Subject): Exported;
};

/** Examples that are a question and its answer. @param why the others are left out */
export function* plainExamples({ examples = [] }: PersonaContent, omissions: Omissions, why: string) {
  for (const [at, turn] of examples.entries()) {
    if (turn.role !== "user") continue;
    const next = examples[at + 1];
    if (next?.role !== "assistant" || next.tool_calls !== undefined || next.content === undefined)
      omissions.add(["examples", at], why);
    else yield { at, question: turn.content, answer: next.content };
  }
}
