/** The version of the persona that answers a call, and where it is shown. */
import type { AnsweringPersona } from "../../usage/attempt.ts";
import type { RequestContext } from "../context.ts";

const header = "x-troupe-persona-version";

export function noteVersion(context: RequestContext, persona: AnsweringPersona): void {
  context.persona = persona;
  context.headers[header] = persona.version;
  context.logFields["persona_version"] = persona.version;
}

/** Kept with an answer, for those who join or replay it. */
export const versionHeaders = ({ persona }: RequestContext): Record<string, string> =>
  persona === undefined ? {} : { [header]: persona.version };

/** Reads who answered a call that this one joins or replays. @param id of the persona */
export function noteAnsweredVersion(
  context: RequestContext,
  headers: Readonly<Record<string, string>>,
  id: string,
): void {
  const version = headers[header];
  if (version !== undefined && context.persona === undefined) noteVersion(context, { id, version });
}
