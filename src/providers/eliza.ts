/**
 * A small ELIZA: it looks for the weightiest keyword, takes the sentence apart around it, and hands it back as a question.
 * Nothing is left to chance: the same conversation always gets the same answer, and replies take turns.
 * After J. Weizenbaum, "ELIZA", Communications of the ACM 9 (1966): https://doi.org/10.1145/365153.365168
 */

/** One way to take a sentence apart. `$1` in a reply is the first captured piece, turned from the speaker's view to ours. */
type Rule = { readonly pattern: RegExp; readonly replies: readonly string[] };
type Keyword = {
  readonly words: RegExp;
  /** The highest one found in a text is answered. */
  readonly rank: number;
  readonly rules: readonly Rule[];
};

const whatever = /^/;

const script: readonly Keyword[] = [
  {
    words: /\b(?:computers?|machines?|robots?|programs?|ai|bots?)\b/,
    rank: 50,
    rules: [
      {
        pattern: whatever,
        replies: [
          "Do machines worry you?",
          "What makes you bring up machines?",
          "What part do you think machines play in this?",
          "Would it be different if you spoke with a person?",
        ],
      },
    ],
  },
  {
    words: /\b(?:dream(?:s|t|ed)?)\b/,
    rank: 30,
    rules: [
      {
        pattern: /\bi dream(?:t|ed) (?:of|about|that) (.+)/,
        replies: [
          "What does it mean to you that you dreamt of $1?",
          "Have you thought of $1 while awake, too?",
          "Who else was in that dream of $1?",
        ],
      },
      {
        pattern: whatever,
        replies: ["What do you take from that dream?", "Do you often dream?", "Which people turn up in your dreams?"],
      },
    ],
  },
  {
    words: /\b(?:mother|mom|mum|father|dad|sister|brother|wife|husband|son|daughter|parents?|family|children)\b/,
    rank: 25,
    rules: [
      {
        pattern: /\bmy (mother|mom|mum|father|dad|sister|brother|wife|husband|son|daughter|parents?|family|children)\b/,
        replies: [
          "Tell me more about your $1.",
          "What comes to mind first when you think of your $1?",
          "How do you get along with your $1?",
        ],
      },
      {
        pattern: whatever,
        replies: ["Tell me more about the people close to you.", "Who in your family matters here?"],
      },
    ],
  },
  {
    words: /\balways\b/,
    rank: 20,
    rules: [
      { pattern: whatever, replies: ["Always?", "Can you think of a time when it was otherwise?", "When, say?"] },
    ],
  },
  {
    words: /\b(?:everyone|everybody|nobody|no one)\b/,
    rank: 20,
    rules: [
      {
        pattern: whatever,
        replies: ["Who in particular?", "Is there one person you have in mind?", "Surely not without exception?"],
      },
    ],
  },
  {
    words: /\b(?:like|alike|same)\b/,
    rank: 10,
    rules: [
      {
        pattern: /\b(?:alike|the same|is like|are like|am like)\b/,
        replies: ["In what way?", "What resemblance do you see?", "What else does that remind you of?"],
      },
    ],
  },
  {
    words: /\b(?:if)\b/,
    rank: 9,
    rules: [
      {
        pattern: /\bif (.+)/,
        replies: ["Do you think it likely that $1?", "What would follow if $1?", "Do you wish that $1?"],
      },
    ],
  },
  {
    words: /\b(?:remember|recall)\b/,
    rank: 8,
    rules: [
      {
        pattern: /\bi (?:still )?(?:remember|recall) (.+)/,
        replies: [
          "Do you often think of $1?",
          "What else comes back to you with $1?",
          "Why do you think of $1 just now?",
        ],
      },
      {
        pattern: /\bdo you (?:remember|recall) (.+)/,
        replies: ["Did you think I would forget $1?", "What about $1 should I bring to mind?"],
      },
    ],
  },
  {
    words: /\b(?:i|i'm|i've)\b/,
    rank: 5,
    rules: [
      {
        pattern: /\bi (?:need|want|wish|would like|hope)(?: for| that)? (.+)/,
        replies: [
          "What would it mean to you to have $1?",
          "Why do you want $1?",
          "Suppose you got $1 soon. What then?",
          "What stands between you and $1?",
        ],
      },
      {
        pattern:
          /\b(?:i am|i'm|i feel|i felt)(?: so| very| really| quite)? (sad|unhappy|depressed|lonely|tired|afraid|angry|lost|sick|worried|anxious)\b/,
        replies: [
          "I am sorry to hear that you are $1.",
          "How long have you been $1?",
          "What do you think made you $1?",
          "Does talking about it make you less $1?",
        ],
      },
      {
        pattern:
          /\b(?:i am|i'm|i feel|i felt)(?: so| very| really| quite)? (happy|glad|better|good|fine|excited|calm|relieved)\b/,
        replies: ["What has made you $1?", "How does being $1 show?", "Is it new to you to be $1?"],
      },
      {
        pattern: /\b(?:i am|i'm) (.+)/,
        replies: [
          "Is it because you are $1 that you came to me?",
          "How long have you been $1?",
          "Do you believe it is usual to be $1?",
          "How do you feel about being $1?",
        ],
      },
      {
        pattern: /\bi (?:can't|cannot|can not|couldn't) (.+)/,
        replies: ["How do you know that you can't $1?", "Have you tried?", "What would help you to $1?"],
      },
      {
        pattern: /\bi (?:don't|do not|didn't|did not) (.+)/,
        replies: ["Why don't you $1?", "Would you like to $1?", "What keeps you from it?"],
      },
      { pattern: /\bi feel (.+)/, replies: ["Do you often feel $1?", "What brings it on that you feel $1?"] },
      {
        pattern: /\bi (?:think|believe|guess|suppose)(?: that)? (.+)/,
        replies: ["What makes you think that $1?", "Are you sure that $1?", "Do others also think that $1?"],
      },
      {
        pattern: /\bi (?:\w+ )?you\b/,
        replies: ["Let us talk about you rather than me.", "What am I to you?", "Would you say that to a friend?"],
      },
    ],
  },
  {
    words: /\b(?:you|your|you're)\b/,
    rank: 4,
    rules: [
      {
        pattern: /\b(?:you are|you're|are you) (.+)/,
        replies: [
          "Why does it matter to you whether I am $1?",
          "Would you prefer it if I were not $1?",
          "Perhaps in your thoughts I am $1.",
        ],
      },
      {
        pattern: /\b(?:can|could|will|would) you (.+)/,
        replies: ["You would like me to $1?", "What if I could $1?", "Is it important to you that I $1?"],
      },
      {
        pattern: /\byou (\w+ )?me\b/,
        replies: ["What makes you think so?", "Does that happen to you with others, too?"],
      },
      { pattern: whatever, replies: ["We were speaking of you, not of me.", "Let us come back to you."] },
    ],
  },
  {
    words: /\bmy\b/,
    rank: 3,
    rules: [
      {
        pattern: /\bmy (.+)/,
        replies: ["Your $1?", "Why do you mention your $1?", "What else belongs with your $1?"],
      },
    ],
  },
  {
    words: /\bbecause\b/,
    rank: 3,
    rules: [
      {
        pattern: whatever,
        replies: ["Is that the real reason?", "What other reasons come to mind?", "Does that explain something else?"],
      },
    ],
  },
  {
    words: /\b(?:why|what|how|when|who|where)\b/,
    rank: 2,
    rules: [
      {
        pattern: /\bwhy (?:don't|can't|won't) (.+)/,
        replies: ["What do you think is the reason?", "Have you asked anyone else?"],
      },
      {
        pattern: whatever,
        replies: [
          "Why do you ask?",
          "What answer would please you most?",
          "What do you think yourself?",
          "Is that a question you often put to yourself?",
        ],
      },
    ],
  },
  {
    words: /\b(?:sorry|apolog\w+)\b/,
    rank: 2,
    rules: [{ pattern: whatever, replies: ["There is nothing to be sorry for.", "What goes with being sorry?"] }],
  },
  {
    words: /\b(?:perhaps|maybe)\b/,
    rank: 1,
    rules: [{ pattern: whatever, replies: ["You don't sound certain.", "What would make you sure?"] }],
  },
  {
    words: /\b(?:hello|hi|hey|good (?:morning|evening|day))\b/,
    rank: 1,
    rules: [
      {
        pattern: whatever,
        replies: ["Hello. What would you like to talk about?", "Hello again. What is on your mind?"],
      },
    ],
  },
  {
    words: /\b(?:bye|goodbye|farewell|see you)\b/,
    rank: 60,
    rules: [{ pattern: whatever, replies: ["Goodbye. It was good to talk with you.", "Goodbye. Come back any time."] }],
  },
  {
    words: /\b(?:thanks|thank you)\b/,
    rank: 40,
    rules: [{ pattern: whatever, replies: ["You are welcome. What else is on your mind?", "Gladly. Please go on."] }],
  },
  {
    words: /\b(?:yes|yeah|certainly|of course)\b/,
    rank: 1,
    rules: [{ pattern: whatever, replies: ["I see. Go on.", "You seem sure of it.", "Tell me more about that."] }],
  },
  {
    words: /\b(?:no|nope|never)\b/,
    rank: 1,
    rules: [{ pattern: whatever, replies: ["Why not?", "Are you saying no to be on the safe side?", "No?"] }],
  },
];

/** When no keyword fits. */
const openings = [
  "Please go on.",
  "What does that bring to mind?",
  "I am not sure I follow. Can you say it another way?",
  "How do you feel about that?",
  "Tell me more.",
];
/** What was once said about something of one's own comes back when the talk runs dry. */
const recollections = [
  "Earlier you spoke of your $1. Does this have to do with it?",
  "Let us come back to your $1.",
  "I still wonder about your $1.",
];
const silence = ["I am listening.", "Take your time."];

const reflections = new Map(
  Object.entries({
    i: "you",
    me: "you",
    my: "your",
    mine: "yours",
    myself: "yourself",
    am: "are",
    "i'm": "you are",
    "i've": "you have",
    "i'll": "you will",
    "i'd": "you would",
    was: "were",
    you: "I",
    your: "my",
    yours: "mine",
    yourself: "myself",
    "you're": "I am",
    "you've": "I have",
    "you'll": "I will",
    "you'd": "I would",
  }),
);

/** What one conversation has used up so far. */
type Session = { readonly turns: Map<readonly string[], number>; readonly memory: string[] };

/** Enough to seem attentive; a longer history or text would only cost time. */
const rememberedTurns = 40;
const heardCharacters = 600;

/**
 * @param userTexts what the user has said, oldest first
 * @param choice the number of the alternative that is wanted: each says something else where the script can
 */
export function replyAsEliza(userTexts: readonly string[], choice: number): string {
  const session: Session = { turns: new Map(), memory: [] };
  const heard = userTexts.slice(-rememberedTurns);
  for (const text of heard.slice(0, -1)) respond(session, text, 0);
  return respond(session, heard.at(-1) ?? "", choice);
}

function respond(session: Session, said: string, choice: number): string {
  const text = normalize(said);
  if (text === "") return take(session, silence, choice);
  const keywords = script.filter(({ words }) => words.test(text)).sort((a, b) => b.rank - a.rank);
  for (const { rules } of keywords) {
    for (const { pattern, replies } of rules) {
      const found = pattern.exec(text);
      if (found === null) continue;
      remember(session, text);
      return fill(take(session, replies, choice), found[1]);
    }
  }
  const recalled = session.memory.shift();
  if (recalled !== undefined) return fill(take(session, recollections, choice), recalled);
  return take(session, openings, choice);
}

function remember({ memory }: Session, text: string): void {
  const own = /\bmy (.+)/.exec(text)?.[1];
  if (own !== undefined) memory.push(own);
}

/** The next reply in turn. */
function take({ turns }: Session, replies: readonly string[], choice: number): string {
  const turn = turns.get(replies) ?? 0;
  turns.set(replies, turn + 1);
  return replies[(turn + choice) % replies.length]!;
}

function fill(reply: string, piece: string | undefined): string {
  return reply.replace("$1", () => reflect(piece ?? ""));
}

/** Turns "i love my cat" into "you love your cat", up to the end of the clause. */
function reflect(piece: string): string {
  const clause = /^[^.,;:!?]*/.exec(piece)?.[0] ?? "";
  return clause
    .trim()
    .split(" ")
    .map((word) => reflections.get(word) ?? word)
    .join(" ");
}

function normalize(said: string): string {
  return said.slice(0, heardCharacters).toLowerCase().replaceAll("’", "'").replace(/\s+/g, " ").trim();
}
