/** What an upstream of chat completions answers, plain and streamed. */
import { sseResponse } from "./upstream-server.ts";

/** @param usage absent: nothing is counted */
export const completionOf = (message: object, finish_reason = "stop", usage?: object) => ({
  choices: [{ index: 0, message: { role: "assistant", ...message }, finish_reason }],
  ...(usage && { usage }),
});

export const chunk = (delta: object, finish_reason: string | null = null) =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason }] })}\n\n`;

/** A part of a call's arguments. @param name of a call that begins */
export const callPiece = (index: number, args: string, name?: string) => {
  const opening = name === undefined ? {} : { id: `call_${index}`, type: "function" };
  return chunk({ tool_calls: [{ index, ...opening, function: { ...(name && { name }), arguments: args } }] });
};

/** What ends a stream. */
export const endingOf = (reason = "stop", usage?: object) => [
  chunk({}, reason),
  ...(usage === undefined ? [] : [`data: ${JSON.stringify({ choices: [], usage })}\n\n`]),
  "data: [DONE]\n\n",
];

export const streamed =
  (...pieces: string[]) =>
  () =>
    sseResponse(pieces);
