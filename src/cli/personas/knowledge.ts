/** `troupe personas knowledge`: the files that a persona knows, and what a question would put before itself. */

import { knowledgeCollection } from "../../call/plan/knowledge.ts";
import { printable } from "../../lib/text/printable.ts";
import type { FoundSection } from "../../lib/text/sections.ts";
import type { FindAdditions } from "../../operate/suites/run-tests.ts";
import { valuesIn } from "../../personas/compose/compose.ts";
import { type Additions, additionsOf } from "../../personas/knowledge/additions.ts";
import { candidatesOf, sectionTokens } from "../../personas/knowledge/sections.ts";
import { questionIn } from "../../personas/knowledge/texts.ts";
import type { Persona } from "../../personas/persona.ts";
import type { ChatRequest, Message } from "../../protocols/chat/schema.ts";
import type { Collection } from "../../store/contract/knowledge.ts";
import { type LocalKnowledge, openKnowledgeInMemory } from "../../store/sqlite/knowledge/in-memory.ts";
import { CommandError, type Context, type ExitCode, keyless, withConfig } from "../context.ts";
import { findServed } from "../personas.ts";
import { printJson } from "../print/print-json.ts";
import { formatTable } from "../print/table.ts";

type Json = { readonly json?: boolean };

/** @param question absent: the files are listed */
export function showKnowledge(
  context: Context,
  id: string,
  question: string | undefined,
  { json }: Json,
): Promise<ExitCode> {
  return withConfig(
    context,
    async (config) => {
      const persona = await findServed(context, config, id);
      if (persona.knowledge === undefined && (persona.lorebook === undefined || question === undefined))
        throw new CommandError(`${id} has no knowledge.`);
      const index = openKnowledgeInMemory();
      try {
        const collection = knowledgeCollection(config.personas.folder, persona);
        const { problems } = await index.sync([collection]);
        const print = question === undefined ? printFiles : printFound;
        await print(context, index, collection, persona, question ?? "", json === true);
        for (const problem of problems) context.io.stderr.write(`${problem}\n`);
        return problems.length === 0 ? 0 : 1;
      } finally {
        await index.close();
      }
    },
    keyless,
  );
}

/** Finds what a persona's knowledge and lorebook add to a request, without a server. @param folder of personas */
export const additionsFrom =
  (folder: string) =>
  (persona: Persona, request: ChatRequest): Promise<Additions | undefined> =>
    withAdditions(folder, [persona], (find) => find(persona, request));

/** Runs `use` with an index of what these personas know. @param folder of personas */
export async function withAdditions<T>(
  folder: string,
  personas: readonly Persona[],
  use: (find: FindAdditions) => Promise<T>,
): Promise<T> {
  const knowing = personas.filter(({ knowledge }) => knowledge !== undefined);
  const index = knowing.length === 0 ? undefined : openKnowledgeInMemory();
  try {
    await index?.sync(knowing.map((persona) => knowledgeCollection(folder, persona)));
    return await use(async (persona, request) => {
      const { knowledge } = persona;
      const { messages } = request;
      const found =
        knowledge === undefined
          ? []
          : await index!.search(knowledgeCollection(folder, persona).id, questionIn(messages), candidatesOf(knowledge));
      return additionsOf(persona, messages, valuesIn(persona, request), found);
    });
  } finally {
    await index?.close();
  }
}

type Print = (
  context: Context,
  index: LocalKnowledge,
  collection: Collection,
  persona: Persona,
  question: string,
  json: boolean,
) => Promise<void>;

const printFiles: Print = async ({ io }, index, { id }, { knowledge }, _question, json) => {
  const files = index.files(id);
  if (json) return printJson(io, { ...knowledge, files });
  if (files.length === 0) io.stderr.write(`No file is named by ${knowledge!.files.join(", ")}.\n`);
  const rows = files.map(({ file, sections, bytes }) => [file, String(sections), String(bytes)]);
  io.stdout.write(formatTable(["file", "sections", "bytes"], rows));
};

const printFound: Print = async ({ io }, index, { id }, persona, question, json) => {
  const { knowledge } = persona;
  const found = knowledge === undefined ? [] : await index.search(id, question, candidatesOf(knowledge));
  const values = new Map([...persona.variables].map(([name, variable]) => [name, variable.default]));
  const messages = [{ role: "user", content: question }] as Message[];
  const added = additionsOf(persona, messages, values, found);
  const isTaken = ({ file, firstLine }: FoundSection) =>
    added?.sections.some((one) => one.file === file && one.firstLine === firstLine) === true;
  const sections = found.map((section) => ({
    score: Math.round(section.score * 1000) / 1000,
    file: section.file,
    lines: `${section.firstLine}-${section.lastLine}`,
    heading: section.heading,
    tokens: sectionTokens([section]),
    added: isTaken(section),
  }));
  const entries = (added?.entries ?? []).map(({ entry, text, tokens }) => ({ name: entry.name ?? null, tokens, text }));
  const text = (added?.within ?? []).map((one) => one.text).join("\n\n");
  const tokens = added?.tokens ?? 0;
  if (json) return printJson(io, { sections, lorebook: entries, tokens, text });
  if (sections.length === 0 && entries.length === 0) {
    io.stdout.write("Nothing is found, so that nothing would be added.\n");
    return;
  }
  const rows = sections.map((one) => [
    String(one.score),
    one.file,
    one.lines,
    one.heading,
    String(one.tokens),
    one.added ? "yes" : "no",
  ]);
  if (rows.length > 0)
    io.stdout.write(printable(formatTable(["score", "file", "lines", "heading", "tokens", "added"], rows)));
  for (const { name, tokens: size } of entries)
    io.stdout.write(printable(`lorebook: ${name ?? "entry"} (${size} tokens)\n`));
  io.stdout.write(printable(`\nBefore the question, some ${tokens} tokens:\n\n${text}\n`));
};
