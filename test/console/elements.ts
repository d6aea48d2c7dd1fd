/** Expressions that find parts of the console's page, as people do: by what stands there. A dialog that is open goes before the page. */

/** A button by its words. */
export const button = (name: string): string =>
  `[...document.querySelectorAll("dialog[open] button, main button")].find((one) => one.innerText === ${JSON.stringify(name)})`;

/** A field by the beginning of its label. @param within where it is looked for */
export const labelled = (name: string, within: "dialog[open]" | "main" | undefined = undefined): string => {
  const labels = (within === undefined ? ["dialog[open]", "main"] : [within]).map((one) => `${one} label`).join();
  return `(() => { const one = [...document.querySelectorAll(${JSON.stringify(labels)})].find((one) => one.innerText.startsWith(${JSON.stringify(name)})); return one?.control; })()`;
};

/** An event of a stream of chat completions. */
export const chunk = (delta: object, finish: string | null = null, more: object = {}): string =>
  `data: ${JSON.stringify({ id: "1", object: "chat.completion.chunk", created: 1, model: "m", choices: [{ index: 0, delta, finish_reason: finish }], ...more })}\n\n`;

/** The line of filters of a list. */
export const filterLine = `document.querySelector('main [aria-label="Add a filter"]')`;
/** What it suggests, each with what is said beside it. */
export const suggestions = `[...document.querySelectorAll('[aria-label="Filters that fit"]:not([hidden]) [role=option]')].map((one) => one.innerText.replaceAll("\\n", " "))`;

/** What opens the menu of a row, by whose it is. */
export const rowMenu = (of: string): string =>
  `[...document.querySelectorAll("main .acts button[aria-haspopup=menu]")].find((one) => one.ariaLabel.includes(${JSON.stringify(of)}))`;
/** One of what an open menu offers. */
export const menuItem = (title: string): string =>
  `[...document.querySelectorAll("[role=menuitem]")].find((one) => one.innerText === ${JSON.stringify(title)})`;
