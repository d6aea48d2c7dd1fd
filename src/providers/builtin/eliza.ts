/**
 * A small ELIZA: the first pattern that fits takes the sentence apart, and a reply hands a piece of it back as a question.
 * Nothing is left to chance: the same conversation always gets the same answer, and replies take turns.
 * After J. Weizenbaum, "ELIZA", Communications of the ACM 9 (1966): https://doi.org/10.1145/365153.365168
 */

/** `$1` in a reply is the first captured piece, turned from the speaker's view to ours. */
type Rule = readonly [pattern: RegExp, ...replies: string[]];

/** The weightiest first. */
const rules: readonly Rule[] = [
  [/\b(?:bye|goodbye|see you)\b/, "Goodbye. It was good to talk with you.", "Goodbye. Come back any time."],
  [/\b(?:computer|machine|robot|program|ai\b|bot\b)/, "Do machines worry you?", "What makes you bring up machines?"],
  [/\bthank/, "You are welcome. What else is on your mind?", "Gladly. Please go on."],
  [/\bdream/, "What do you take from that dream?", "Do you often dream?"],
  [
    /\bmy (mother|mom|mum|father|dad|sister|brother|wife|husband|son|daughter|parents|family|children)\b/,
    "Tell me more about your $1.",
    "How do you get along with your $1?",
  ],
  [/\b(?:always|never|everyone|everybody|nobody)\b/, "Can you think of an exception?", "Who or what in particular?"],
  [/\bif (.+)/, "Do you think it likely that $1?", "What would follow if $1?"],
  [
    /\bi (?:need|want|wish|would like|hope)(?: for| that)? (.+)/,
    "What would it mean to you to have $1?",
    "Why do you want $1?",
    "Suppose you got $1 soon. What then?",
  ],
  [
    /\b(?:i am|i'm|i feel|i felt)(?: so| very)? (sad|unhappy|lonely|tired|afraid|angry|lost|sick|worried|anxious)\b/,
    "I am sorry to hear that you are $1.",
    "How long have you been $1?",
  ],
  [/\b(?:i am|i'm) (.+)/, "How long have you been $1?", "How do you feel about being $1?"],
  [/\bi (?:can't|cannot|couldn't) (.+)/, "How do you know that you can't $1?", "What would help you to $1?"],
  [/\bi (?:don't|do not|didn't) (.+)/, "Why don't you $1?", "Would you like to $1?"],
  [/\bi feel (.+)/, "Do you often feel $1?", "What brings it on that you feel $1?"],
  [/\bi (?:think|believe|guess)(?: that)? (.+)/, "What makes you think that $1?", "Are you sure that $1?"],
  [
    /\b(?:you are|you're|are you) (.+)/,
    "Why does it matter to you whether I am $1?",
    "Perhaps in your thoughts I am $1.",
  ],
  [/\b(?:can|could|will|would) you (.+)/, "You would like me to $1?", "What if I could $1?"],
  [/\bmy (.+)/, "Why do you mention your $1?", "What else belongs with your $1?"],
  [/\bbecause\b/, "Is that the real reason?", "What other reasons come to mind?"],
  [/\b(?:why|what|how|when|who|where)\b/, "Why do you ask?", "What do you think yourself?"],
  [/\b(?:hello|hi|hey)\b/, "Hello. What would you like to talk about?", "Hello again. What is on your mind?"],
  [/\b(?:yes|yeah|of course)\b/, "I see. Go on.", "You seem sure of it."],
  [/\b(?:no|nope)\b/, "Why not?", "Are you saying no to be on the safe side?"],
  [/^$/, "I am listening.", "Take your time."],
  [/^/, "Please go on.", "What does that bring to mind?", "How do you feel about that?", "Tell me more."],
];

const reflections = new Map(
  Object.entries({
    ...{ i: "you", me: "you", my: "your", mine: "yours", myself: "yourself", am: "are", "i'm": "you are" },
    ...{ you: "I", your: "my", yours: "mine", yourself: "myself", "you're": "I am", was: "were" },
  }),
);

/** Enough to seem attentive; a longer history or text would only cost time. */
const maxTurns = 40;
const maxCharacters = 600;

/**
 * @param userTexts what the user has said, oldest first
 * @param choice the number of the alternative that is wanted: each says something else where there is something else
 */
export function replyAsEliza(userTexts: readonly string[], choice: number): string {
  const heard = userTexts.slice(-maxTurns).map(normalize);
  const said = heard.at(-1) ?? "";
  const rule = ruleFor(said);
  const [pattern, ...replies] = rule;
  const turn = heard.slice(0, -1).filter((text) => ruleFor(text) === rule).length;
  const reply = replies[(turn + choice) % replies.length]!;
  return reply.replace("$1", () => reflect(pattern.exec(said)?.[1] ?? ""));
}

const ruleFor = (text: string): Rule => rules.find(([pattern]) => pattern.test(text))!;

/** Turns "i love my cat" into "you love your cat", up to the end of the clause. */
function reflect(piece: string): string {
  const clause = /^[^.,;:!?]*/.exec(piece)?.[0] ?? "";
  const words = clause.trim().split(" ");
  return words.map((word) => reflections.get(word) ?? word).join(" ");
}

function normalize(said: string): string {
  return said.slice(0, maxCharacters).toLowerCase().replaceAll("’", "'").replace(/\s+/g, " ").trim();
}
