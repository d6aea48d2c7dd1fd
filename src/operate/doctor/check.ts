/** The result of one check of `troupe doctor`, and of the same checks in a server. */
export type Check = {
  readonly what: string;
  readonly state: "ok" | "warning" | "error";
  /** The finding. */
  readonly found: string;
  /** The advice, unless all is well. */
  readonly advice?: string;
};

const problem =
  (state: Check["state"]) =>
  (what: string, found: string, advice: string): Check => ({ what, state, found, advice });

export const ok = (what: string, found: string): Check => ({ what, state: "ok", found });
export const warning = problem("warning");
export const failure = problem("error");
