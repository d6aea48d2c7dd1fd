/** Names and titles of the pages, in the order of the navigation: for the console, and for the page that stands before its script runs. */

export type PageTitle = {
  /** Its name in the address; empty: the first. */
  readonly name: string;
  readonly title: string;
};

export const pageTitles = [
  { name: "", title: "Overview" },
  { name: "calls", title: "Calls" },
  { name: "playground", title: "Playground" },
  { name: "personas", title: "Personas" },
  { name: "keys", title: "Keys and budgets" },
  { name: "spend", title: "Spend" },
  { name: "providers", title: "Providers" },
  { name: "system", title: "System" },
] as const satisfies readonly PageTitle[];
