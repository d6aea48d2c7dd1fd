/** What `troupe doctor` has to say of one thing. */
export type Finding = {
  readonly what: string;
  readonly state: "ok" | "warning" | "fault";
  /** What was found. */
  readonly found: string;
  /** What to do, unless all is well. */
  readonly advice?: string;
};

export const ok = (what: string, found: string): Finding => ({ what, state: "ok", found });
export const warning = (what: string, found: string, advice: string): Finding => ({
  what,
  state: "warning",
  found,
  advice,
});
export const fault = (what: string, found: string, advice: string): Finding => ({
  what,
  state: "fault",
  found,
  advice,
});
