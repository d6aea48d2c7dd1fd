/** Personas as the admin API gives them. */
export type Listed<T> = { readonly data: readonly T[]; readonly has_more: boolean; readonly last_id: string | null };

export type Persona = {
  readonly id: string;
  readonly version: string;
  readonly description: string;
  readonly tier: string;
  readonly owned_by: string;
  readonly created: number;
  readonly tags: readonly string[];
  readonly model: string | null;
  readonly models: readonly string[];
  readonly variants: readonly string[];
  readonly stopped_variants: readonly string[];
  readonly last_test_run: {
    readonly version: string;
    readonly started_at: string;
    readonly passed: number;
    readonly failed: number;
    readonly errors: number;
  } | null;
};

export type Variable = {
  readonly description?: string;
  readonly enum?: readonly string[];
  readonly default?: string;
  readonly required: boolean;
};

export type PersonaDetails = Persona & {
  readonly greeting: string | null;
  readonly variables: Readonly<Record<string, Variable>>;
  readonly defaults: Readonly<Record<string, unknown>>;
  readonly limits: Readonly<Record<string, unknown>>;
  readonly options: Readonly<Record<string, unknown>>;
  readonly stop: readonly string[];
  readonly tools: readonly { readonly function?: { readonly name: string } }[];
  /** Null: the label stable names the version in service, or none. */
  readonly since_stable: { readonly version: string; readonly must_see: readonly string[] } | null;
  readonly previews: readonly Push[];
  readonly reports: readonly Push[];
};

/** Of a branch, under its label. */
export type Push = {
  readonly label: string;
  readonly version: string;
  readonly key_name: string;
  readonly pushed_at: string;
  readonly ends_at: string;
};

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

export type Finding = {
  readonly severity: "error" | "warning";
  readonly file: string;
  readonly line: number | null;
  readonly column: number | null;
  readonly path: string;
  readonly message: string;
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

export type Version = {
  readonly id: string;
  readonly created_at: string | null;
  readonly used_at: string | null;
  readonly in_service: boolean;
  readonly labels: readonly string[];
};

export type Sum = {
  readonly calls: number;
  readonly ended: Readonly<Record<string, number>>;
  readonly cost_micro_dollars: number;
  readonly unknown_cost_calls: number;
};

export const pathOf = (id: string): string => `v1/personas/${id}`;
