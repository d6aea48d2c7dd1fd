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
