/** A prompt of several messages as a persona: system texts, turns that show how to answer, and the caller's own turn. */
import { type DraftTurn, type Examples, joinTemplate, type Omissions, pairedTurns, type Variables } from "./draft.ts";
import { type Piece, trimPieces, variablesOf } from "./pieces.ts";
import { ImportError } from "./source.ts";

export type TemplateTurn = {
  readonly role: "system" | "user" | "assistant";
  readonly pieces: readonly Piece[];
  /** "line 12", "messages[1]". */
  readonly place: string;
};

type FromTurns = {
  readonly system: string;
  readonly examples: Examples;
  /** The variables that system uses. */
  readonly used: readonly string[];
  /** The caller's turn, where the prompt has one. */
  readonly question?: readonly Piece[];
};

/**
 * The last question is the caller's: a persona has none of its own. One that is a variable alone is what callers send as their message;
 * the text of another goes to the end of system, so that nothing of it is lost.
 * @throws ImportError
 */
export function fromTurns(given: readonly TemplateTurn[], omissions: Omissions): FromTurns {
  const turns = given
    .map((turn) => ({ ...turn, pieces: trimPieces(turn.pieces) }))
    .filter(({ pieces }) => pieces.length > 0);
  const system = turns.filter(({ role }) => role === "system");
  const spoken = turns.filter(({ role }) => role !== "system");
  const last = spoken.at(-1);
  const question = last?.role === "user" ? spoken.pop()! : undefined;
  if (last?.role === "assistant" && spoken.length % 2 === 1) {
    throw new ImportError(last.place, "begins the answer, which a persona can't");
  }
  const texts = system.map(({ pieces }) => joinTemplate(pieces));
  const used = system.flatMap(({ pieces }) => variablesOf(pieces));
  if (question !== undefined && !isInput(question.pieces)) {
    texts.push(joinTemplate(question.pieces));
    used.push(...variablesOf(question.pieces));
    const why = system.length === 0 ? "is the system text here" : "stands at the end of system";
    omissions.add(question.place, `${why}: callers may send a message of their own`);
  } else if (question !== undefined) {
    const [name] = variablesOf(question.pieces);
    omissions.add(question.place, `{{${name}}} is the message that callers send, and no variable`);
  }
  if (texts.length === 0)
    throw new ImportError(last?.place ?? "", "has no text beside the caller's: a persona is its system text");
  return {
    system: texts.join("\n\n"),
    examples: examplesOf(spoken),
    used: [...new Set(used)],
    ...(question !== undefined && isInput(question.pieces) && { question: question.pieces }),
  };
}

const isInput = (pieces: readonly Piece[]) => pieces.length === 1 && typeof pieces[0] !== "string";

function examplesOf(turns: readonly TemplateTurn[]): Examples {
  const plain = turns.map(({ role, pieces, place }): DraftTurn => {
    const [name] = variablesOf(pieces);
    if (name !== undefined) throw new ImportError(place, `an example can't hold the variable {{${name}}}`);
    return { role: role as DraftTurn["role"], content: pieces.join("") };
  });
  const paired = pairedTurns(plain);
  if (paired === undefined)
    throw new ImportError(turns[0]?.place ?? "", "has turns that are not questions and answers in turn");
  return paired;
}

/**
 * @param declared what the file says of its variables
 * @param used by the system text
 * @returns those that are used, each declared; what else is declared is listed
 */
export function usedVariables(
  declared: Readonly<Variables>,
  used: readonly string[],
  place: string,
  omissions: Omissions,
): Variables {
  for (const name of Object.keys(declared)) {
    if (!used.includes(name)) omissions.add(`${place}.${name}`, "is not used by the system text");
  }
  return Object.fromEntries(used.map((name) => [name, Object.hasOwn(declared, name) ? declared[name]! : {}]));
}
