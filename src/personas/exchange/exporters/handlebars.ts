/** A persona's template in Handlebars' words. Source: https://handlebarsjs.com/guide/expressions.html */

import { parseTemplate } from "../../compose/template.ts";
import { handlebarsWords } from "../importers/templates/handlebars.ts";

/** Writes nothing, and parts what would be read together. */
const nothing = "{{! }}";

/** @param helpers names that a format calls as helpers @param onSpace is told where a brace gets a space behind it */
export function handlebarsOf(template: string, helpers: ReadonlySet<string>, onSpace: () => void): string {
  let written = "";
  let text = "";
  for (const part of [...parseTemplate(template), undefined]) {
    if (part !== undefined && "text" in part) text += part.text;
    else {
      // Behind a variable a brace would be a third one.
      if (text.startsWith("}") && written.endsWith("}}")) written += nothing;
      const isBraceLast = part !== undefined && /\{*$/.exec(text)![0].length % 2 === 1;
      if (isBraceLast) onSpace();
      written += literalText(text);
      if (part === undefined) break;
      const backslashes = /\\*$/.exec(text)![0];
      const isPath = helpers.has(part.variable) || handlebarsWords.has(part.variable);
      written += `${isBraceLast ? " " : ""}${backslashes === "" ? "" : "\\"}{{${isPath ? "this." : ""}${part.variable}}}`;
      text = "";
    }
  }
  return written;
}

/** Braces are literal behind a backslash, of which one that is there already has to be told apart. */
const literalText = (text: string): string =>
  text.replace(/(\\*)\{\{/g, (_, before: string) => (before === "" ? "\\{{" : `${before}\\${nothing}\\{{`));
