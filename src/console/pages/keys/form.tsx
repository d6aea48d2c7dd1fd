/** Makes and changes keys. */
import { useState } from "preact/hooks";
import { type ApiFailure, patch, post, put } from "../../api.ts";
import { useAction } from "../../data.ts";
import { Button, Check, Field, Select, TextInput } from "../../ui/form.tsx";
import { Bar } from "../../ui/layout.tsx";
import { Failure } from "../../ui/states.tsx";
import { type Key, type NewKey, periods, surfaces, tiers } from "./types.ts";

const listOf = (text: string) => text.split(/[\s,]+/).filter((one) => one !== "");
const numberOf = (text: string) => (text.trim() === "" ? null : Number(text));

const surfaceTitles: Readonly<Record<string, string>> = {
  orchestrator: "Personas (orchestrator)",
  gateway: "Models (gateway)",
  admin: "Administration: all of it",
  raw: "Providers' own APIs (raw)",
};

type Values = { readonly [Name in (typeof names)[number]]: string } & { readonly surfaces: readonly string[] };
const names = [
  ...(["name", "tier", "models", "tags", "per_minute"] as const),
  ...(["tokens_per_minute", "expires_at", "dollars", "period"] as const),
];

const valuesOf = (key: Key | undefined): Values => ({
  name: key?.name ?? "",
  tier: key?.tier ?? "pro",
  models: key?.models.join(", ") ?? "*",
  tags: key?.tags.join(", ") ?? "",
  per_minute: String(key?.per_minute ?? ""),
  tokens_per_minute: String(key?.tokens_per_minute ?? ""),
  expires_at: key?.expires_at?.slice(0, 10) ?? "",
  surfaces: key?.surfaces ?? ["orchestrator", "gateway"],
  dollars: "",
  period: "month",
});

/** @returns the part of the body that differs from what the form began with */
function bodyOf(now: Values, before: Values, isNew: boolean): Record<string, unknown> {
  const all: Record<string, [unknown, boolean]> = {
    name: [now.name, now.name !== before.name],
    tier: [now.tier, now.tier !== before.tier],
    surfaces: [now.surfaces, now.surfaces !== before.surfaces],
    models: [listOf(now.models), now.models !== before.models],
    tags: [listOf(now.tags), now.tags !== before.tags],
    per_minute: [numberOf(now.per_minute), now.per_minute !== before.per_minute],
    tokens_per_minute: [numberOf(now.tokens_per_minute), now.tokens_per_minute !== before.tokens_per_minute],
    expires_at: [now.expires_at || null, now.expires_at !== before.expires_at],
  };
  const kept = Object.entries(all).filter(([name, [, isChanged]]) => isChanged || (isNew && name === "name"));
  return Object.fromEntries(kept.map(([name, [value]]) => [name, value]));
}

/** What is known once a key is made: its secret, and whether its first budget was refused. */
export type Made = { readonly made: NewKey; readonly budgetFailure?: ApiFailure };

/** @param of the key to change; absent: a new one */
export function KeyForm({
  of,
  onDone,
}: {
  readonly of?: Key;
  /** @param made absent where a key was changed */
  readonly onDone: (made?: Made) => void;
}) {
  const [begun] = useState(() => valuesOf(of));
  const [values, setValues] = useState(begun);
  const { busy, error, run } = useAction();
  const set = (changes: Partial<Values>) => setValues({ ...values, ...changes });
  const wrong = (name: string) => (error?.param.split("[")[0] === name ? error.message : undefined);
  const text = (name: (typeof names)[number], type: "text" | "number" | "date" = "text") => (
    <TextInput
      type={type}
      value={values[name]}
      onInput={(value) => set({ [name]: value })}
      required={name === "name"}
      autofocus={name === "name"}
      {...(type === "number" && { min: 0, step: name === "dollars" ? "any" : 1 })}
    />
  );
  const submit = () =>
    run(async () => {
      const body = bodyOf(values, begun, of === undefined);
      if (of !== undefined) {
        await patch(`v1/keys/${of.id}`, body);
        return onDone();
      }
      const made = await post<NewKey>("v1/keys", body);
      if (values.dollars === "") return onDone({ made });
      // The key is there whatever becomes of its budget: its secret must be shown.
      try {
        await put(`v1/budgets/key:${made.id}/${values.period}`, { dollars: Number(values.dollars) });
        onDone({ made });
      } catch (failure) {
        onDone({ made, budgetFailure: failure as ApiFailure });
      }
    });
  const isElsewhere = error !== undefined && ![...names, "surfaces"].some((name) => wrong(name) !== undefined);
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        void submit();
      }}
    >
      <Field label="Name" hint="Whose key it is; shown beside each of its calls" error={wrong("name")}>
        {text("name")}
      </Field>
      <fieldset>
        <legend>Access</legend>
        <Bar>
          {surfaces.map((surface) => (
            <Check
              key={surface}
              label={surfaceTitles[surface]!}
              checked={values.surfaces.includes(surface)}
              onChange={(isOn) =>
                set({
                  surfaces: isOn ? [...values.surfaces, surface] : values.surfaces.filter((one) => one !== surface),
                })
              }
            />
          ))}
        </Bar>
        {wrong("surfaces") !== undefined && (
          <small class="error" role="alert">
            {wrong("surfaces")}
          </small>
        )}
      </fieldset>
      <Field label="Models" hint="Patterns such as openai/* or acme/support; * is all" error={wrong("models")}>
        {text("models")}
      </Field>
      <Field label="Tags" hint="Spend and budgets can be by tag, as of a team" error={wrong("tags")}>
        {text("tags")}
      </Field>
      <Bar>
        <Field label="Plan" hint="With its limits" error={wrong("tier")}>
          <Select value={values.tier} options={tiers} onChange={(tier) => set({ tier })} />
        </Field>
        <Field label="Requests a minute" hint="Empty: its plan's" error={wrong("per_minute")}>
          {text("per_minute", "number")}
        </Field>
        <Field label="Tokens a minute" hint="Empty: no limit" error={wrong("tokens_per_minute")}>
          {text("tokens_per_minute", "number")}
        </Field>
        <Field label="Expires" hint="0:00 UTC; empty: never" error={wrong("expires_at")}>
          {text("expires_at", "date")}
        </Field>
      </Bar>
      {of === undefined && (
        <Bar label="First budget">
          <Field label="Budget in dollars" hint="Empty: none of its own">
            {text("dollars", "number")}
          </Field>
          <Field label="Period" hint="In UTC">
            <Select value={values.period} options={periods} onChange={(period) => set({ period })} />
          </Field>
        </Bar>
      )}
      {isElsewhere && <Failure error={error} />}
      <Button type="submit" tone="primary" busy={busy}>
        {of === undefined ? "Create the key" : "Save"}
      </Button>
    </form>
  );
}
