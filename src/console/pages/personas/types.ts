/** Personas as the admin API gives them. */
import type { Finding } from "../../../api/findings.ts";
import type { PersonaPush as Push } from "../../../api/personas.ts";

export type { Finding } from "../../../api/findings.ts";
export type {
  Persona as PersonaDetails,
  PersonaPush as Push,
  PersonaSummary as Persona,
  PersonaVariable as Variable,
} from "../../../api/personas.ts";
export type { PersonaVersion as Version } from "../../../api/versions.ts";
export type Listed<T> = { readonly data: readonly T[]; readonly has_more: boolean; readonly last_id: string | null };

export const verdictTones = { pass: "ok", fail: "bad", error: "warn" } as const;
type Answered = {
  readonly verdict: keyof typeof verdictTones;
  readonly reason: string;
  readonly answer?: string;
  /** Dollars. */
  readonly cost?: number;
  readonly latency_ms?: number;
};
export type ReportedTest = {
  readonly name: string;
  readonly change: "same" | "edited" | "new" | "gone";
  readonly before?: Answered;
  readonly after?: Answered;
};
export type Report = Push & {
  readonly against: { readonly ref: string; readonly commit: string };
  readonly persona: {
    readonly summary: readonly string[];
    readonly must_see: readonly string[];
    readonly patch: string;
    readonly knowledge: readonly { readonly file: string; readonly change: string; readonly patch?: string }[];
    readonly requests: readonly {
      readonly model: string;
      readonly change: string;
      readonly changes: readonly string[];
    }[];
    readonly tests: readonly ReportedTest[];
    readonly same_tests: number;
    readonly is_cut?: true;
  };
};

/** A file of the folder of personas. */
export type FileText = {
  /** Of the persona. */
  readonly id: string;
  readonly file: string;
  readonly text: string;
  /** Null: there is no such file yet. */
  readonly hash: string | null;
  readonly read_only: "write_off" | "in_executable" | null;
  readonly findings: readonly Finding[];
};
export type Source = FileText & { readonly version: string | null; readonly is_served: boolean };

export type Sum = {
  readonly calls: number;
  readonly ended: Readonly<Record<string, number>>;
  readonly cost_micro_dollars: number;
  readonly unknown_cost_calls: number;
};

export const pathOf = (id: string): string => `v1/personas/${id}`;
