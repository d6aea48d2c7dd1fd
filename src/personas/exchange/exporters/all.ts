/** All forms that personas are exported to. */
import { characterCards } from "./character-card.ts";
import { claudeSubagentExporter } from "./claude-subagent.ts";
import { dotpromptExporter } from "./dotprompt.ts";
import type { Exporter } from "./exporter.ts";
import { modelfileExporter } from "./modelfile.ts";
import { promptfooExporter } from "./promptfoo.ts";

export const exporters: readonly Exporter[] = [
  ...characterCards,
  modelfileExporter,
  dotpromptExporter,
  promptfooExporter,
  claudeSubagentExporter,
];
