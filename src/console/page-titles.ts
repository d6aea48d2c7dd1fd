/** Names, titles and marks of the pages, in the order of the navigation: for the console, and for the page that stands before its script runs. */

export type PageTitle = {
  /** Its name in the address; empty: the first. */
  readonly name: string;
  readonly title: string;
  /** The path of its mark, drawn as lines on 16 by 16. */
  readonly icon: string;
};

export const pageTitles = [
  { name: "", title: "Overview", icon: "M2.5 2.5h4v5h-4zM9.5 2.5h4v3h-4zM9.5 8.5h4v5h-4zM2.5 10.5h4v3h-4z" },
  { name: "calls", title: "Calls", icon: "M2.5 4h11M2.5 8h11M2.5 12h6.5" },
  { name: "spend", title: "Spend", icon: "M2.5 13.5h11M4.5 11V8M8 11V3M11.5 11V6" },
  { name: "playground", title: "Playground", icon: "M2.5 3h11v7.5H8L5 13.5v-3H2.5z" },
  {
    name: "personas",
    title: "Personas",
    icon: "M8 7.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM3 13.5c.4-2.6 2.4-4 5-4s4.6 1.4 5 4",
  },
  {
    name: "keys",
    title: "Keys and budgets",
    icon: "M10.5 8.5a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM8.3 7.7l-5.8 5.8M4.5 11.5l1.7 1.7",
  },
  { name: "providers", title: "Providers", icon: "M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h1.5M5 11h1.5" },
  { name: "system", title: "System", icon: "M2.5 4.5h4M10.5 4.5h3M8.5 2.8v3.4M2.5 11.5h3M9.5 11.5h4M7.5 9.8v3.4" },
] as const satisfies readonly PageTitle[];

type Name = (typeof pageTitles)[number]["name"];

/** What belongs together. */
export const pageGroups: readonly { readonly title: string; readonly pages: readonly Name[] }[] = [
  { title: "Watch", pages: ["", "calls", "spend"] },
  { title: "Build", pages: ["playground", "personas"] },
  { title: "Run", pages: ["keys", "providers", "system"] },
];

/** The path of the mark of the whole: a T on a square. */
export const brandIcon = "M4.5 5h7M8 5v6.5";
