/** English words as a search compares them: without endings, and with others that say the same of tools. */

/** Words that say nothing of what is wanted. */
const empty: ReadonlySet<string> = new Set(
  `a about all am an and any anything are as at be been but by can could did do does done everything for from had has have how i if in into is it its
  just let like may me might my need no not now of on onto or our out please say says shall she should so some something tell than that the their them then there
  these they thing this those to too us use using via want was we were what when where which who whom whose why will with would you your`.split(
    /\s+/,
  ),
);

/** Endings that make no other word, in the order in which they are cut off, with what is left in their place. */
const endings: readonly (readonly [RegExp, string])[] = [
  [/ies$/, "y"],
  [/(x|ch|sh|ss|z)es$/, "$1"],
  [/([^su])s$/, "$1"],
  [/(?:at)?ion$/, ""],
  [/ment$/, ""],
  [/(?:ing|ed|er|or)$/, ""],
  [/ly$/, ""],
  // `stopped` and `stop`
  [/([^aeiouls])\1$/, "$1"],
  [/e$/, ""],
  [/y$/, "i"],
];

/** The part of an English word that its forms share. It need be no word: both sides are cut alike. */
export function stemOf(word: string): string {
  let stem = word;
  for (const [ending, left] of endings) {
    const cut = stem.replace(ending, left);
    if (cut.length >= 3) stem = cut;
  }
  return stem;
}

/** Words that name one thing, or ask for one act, of tools. */
const kin: readonly (readonly string[])[] = [
  "create make add new write insert put",
  "delete remove erase drop clear forget cancel",
  "update edit change modify set patch replace",
  "list show get find search look fetch read view retrieve query lookup",
  "send post reply",
  "answer reply respond",
  "message comment note mail email",
  "move rename",
  "open create navigate visit go",
  "folder directory dir",
  "repository repo project",
  "pull pr merge",
  "issue bug ticket",
  "picture image photo screenshot",
  "person user people member contact",
  "place location address restaurant shop hotel",
  "near nearby around",
  "way route direction travel drive",
  "far distance long",
  "altitude elevation height",
  "coordinate latitude longitude geocode",
  "time date clock hour zone timezone",
  "event meeting appointment",
  "free busy available",
  "page site website",
  "web site website url link http https www internet",
  "difference diff change compare",
  "history log",
  "start begin run execute",
  "stop end close quit cancel",
  "size large big",
  "document doc file json txt csv md",
  "discard revert undo reset throw",
  "remember memory store save keep knowledge know",
  "repeat echo",
  "sum add plus total",
  "script javascript code",
  "database sql table",
  "error failure exception",
  "deploy release publish",
  "weather forecast",
  "pay payment invoice",
].map((group) => group.split(" "));

const kinByStem = new Map<string, Set<string>>();
for (const group of kin.map((words) => words.map(stemOf))) {
  for (const word of group) {
    const others = kinByStem.get(word) ?? new Set();
    for (const other of group) if (other !== word) others.add(other);
    kinByStem.set(word, others);
  }
}

/** @returns other stems that say the same as one */
export const kinOf = (stem: string): readonly string[] => [...(kinByStem.get(stem) ?? [])];

/** @returns the different stems of a text's words, in their order, without words that say nothing; of `listIssues` those of its parts, too */
export function stemsIn(text: string): string[] {
  const stems = new Set<string>();
  for (const [word] of text.matchAll(/[\p{L}\p{N}'’]+/gu)) {
    const plain = word.replace(/['’](?:s|re|ve|ll|d|m|t)$/i, "").replaceAll(/['’]/g, "");
    const parts = plain.split(/(?<=\p{Ll}|\p{N})(?=\p{Lu})|(?<=\p{Lu})(?=\p{Lu}\p{Ll})/u);
    for (const one of parts.length > 1 ? [plain, ...parts] : parts) {
      const lower = one.toLowerCase();
      if (lower !== "" && !empty.has(lower)) stems.add(stemOf(lower));
    }
  }
  return [...stems];
}
