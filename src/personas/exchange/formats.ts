/** The names of the formats of other programs, for help: it is shown without loading what reads and writes them. */
import { words } from "../../lib/text/words.ts";

export const importFormats = words(
  "card openai-prompt open-webui librechat promptfoo dotprompt prompty claude-subagent modelfile markdown",
);
export const exportFormats = words(
  "card-v2 card-v3 card-v2-png card-v3-png modelfile dotprompt promptfoo claude-subagent",
);
