/** All formats that are imported, and which one a file is of. */
import { characterCard } from "./character-card/importer.ts";
import { claudeSubagent } from "./claude-subagent.ts";
import { dotprompt } from "./dotprompt.ts";
import type { Imported } from "./draft.ts";
import type { Importer } from "./importer.ts";
import { libreChat } from "./librechat.ts";
import { markdown } from "./markdown.ts";
import { modelfile } from "./modelfile.ts";
import { openWebUi } from "./open-webui.ts";
import { openAiPrompt } from "./openai-prompt.ts";
import { promptfoo } from "./promptfoo.ts";
import { prompty } from "./prompty.ts";
import { ImportError, type ImportedFile } from "./source.ts";

/** A file that no importer takes for its own. */
export class UnknownFormat extends ImportError {}

/** In the order in which they are tried: a form that others look like stands behind them. */
export const importers: readonly Importer[] = [
  ...[
    characterCard,
    openAiPrompt,
    openWebUi,
    libreChat,
    promptfoo,
    dotprompt,
    prompty,
    claudeSubagent,
    markdown,
    modelfile,
  ],
];

/**
 * @param format one of the importers'; absent: the name's ending decides, else the content
 * @throws ImportError
 */
export function importFile(
  source: ImportedFile,
  format?: string,
): { readonly format: string; readonly personas: Imported[] } {
  if (source.bytes.length === 0) throw new ImportError("", "is empty");
  const importer =
    format === undefined
      ? (importers.find((one) => one.claims?.(source)) ?? importers.find((one) => one.detects(source)))
      : importers.find((one) => one.format === format);
  if (importer === undefined) {
    if (source.looksLikeJson) void source.json; // What is no JSON is reported as that.
    const names = importers.map((one) => one.format).join(", ");
    throw new UnknownFormat("", `is of no format that is known here; --format says which it is (${names})`);
  }
  return { format: importer.format, personas: importer.read(source) };
}
