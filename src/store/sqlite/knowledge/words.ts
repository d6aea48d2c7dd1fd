/** The words of texts and questions, as the index of knowledge holds and looks for them. */

/** Scripts that set no spaces between words. */
const unspaced = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}ー々]+/gu;
const words = /[\p{L}\p{N}\p{M}]+/gu;

/** Bounds of a question: what it says first and last, and its longest words. */
const maxQuestion = 4_000;
const maxTerms = 32;
/** Words of at least so many letters, without digits, also find longer ones that begin with them. */
const prefixFrom = 6;

/** @returns the text with runs of Chinese, Japanese and Korean as pairs of neighbouring characters, each a word of the index */
export function indexable(text: string): string {
  return text.replace(unspaced, (run) => ` ${pairsOf(run).join(" ")} `);
}

function pairsOf(run: string): string[] {
  const letters = [...run];
  return letters.length === 1 ? letters : letters.slice(1).map((letter, at) => letters[at]! + letter);
}

/** @returns a query in the syntax of FTS5 that finds what has any of the words; undefined for a question without words */
export function matchQueryOf(question: string): string | undefined {
  const terms = termsOf(question);
  return terms.length === 0 ? undefined : terms.join(" OR ");
}

/** Terms hold letters, digits and marks alone, within quotes: https://www.sqlite.org/fts5.html#fts5_strings */
function termsOf(question: string): string[] {
  const half = maxQuestion / 2;
  const asked = question.length <= maxQuestion ? question : `${question.slice(0, half)} ${question.slice(-half)}`;
  const found = new Set<string>();
  const single = new Set<string>();
  for (const run of asked.toLowerCase().match(unspaced) ?? []) {
    for (const pair of pairsOf(run)) (pair.length === 1 ? single : found).add(pair);
  }
  const others = asked.toLowerCase().replace(unspaced, " ").match(words) ?? [];
  const said = others.filter((word) => word.length > 1 || /\p{N}/u.test(word));
  const telling = said.filter((word) => !stopWords.has(word));
  for (const word of telling) found.add(word);
  const terms = [...found].sort((one, other) => other.length - one.length).slice(0, maxTerms);
  const quoted = terms.map((term) => {
    const word = `"${term.slice(0, 64)}"`;
    return term.length >= prefixFrom && !/\p{N}/u.test(term) ? `${word} *` : word;
  });
  return [...quoted, ...[...single].slice(0, maxTerms - quoted.length).map((letter) => `"${letter}" *`)];
}

/** English words that say nothing of a question's subject, and those of contractions. */
const stopWords: ReadonlySet<string> = new Set(
  `a about above after again against all also am an and any are as at be because been before being below between both but by
  can could did do does doing don during each few for from further get got had has have having he hello her here hers hey hi
  him his how i if in into is it its just let ll me more most must my no nor not now of off on once one only or other our ours
  out over own per please re same shall she should so some such than thank thanks that the their theirs them then there these
  they this those through to too under until up upon us ve very via was we were what when where whether which while who whom
  whose why will with within without would yes you your yours`
    .split(/\s+/)
    .filter((word) => word !== ""),
);
