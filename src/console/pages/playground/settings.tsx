/** What both columns get beside the conversation. */
import type { ApiFailure } from "../../api.ts";
import { Check, Field, Select, TextArea, TextInput } from "../../ui/form.tsx";
import { Bar } from "../../ui/layout.tsx";
import type { Variable } from "../personas/types.ts";
import { type Settings, settings, toolsFault } from "./state.ts";

export function SettingsPanel({
  variables,
  hasModel,
  errors,
}: {
  readonly variables: Readonly<Record<string, Variable>>;
  /** Whether a plain model is among those that are asked. */
  readonly hasModel: boolean;
  /** Of the last turn: each stands at the field that it names. */
  readonly errors: readonly ApiFailure[];
}) {
  const { system, variables: values, temperature, maxTokens, thinkingBudget, thoughts, tools } = settings.value;
  const set = (changes: Partial<Settings>) => {
    settings.value = { ...settings.value, ...changes };
  };
  const faultOf = (name: string) => errors.find(({ param }) => new RegExp(`^${name}\\b`).test(param))?.message;
  return (
    <details class="panel parameters" open>
      <summary>
        <strong>Parameters</strong> <span class="muted">of both; empty: as the persona or the model has it</span>
      </summary>
      {Object.keys(variables).length > 0 && (
        <Bar label="Variables">
          {Object.entries(variables).map(([name, { description, enum: choices, default: value, required }]) => {
            const put = (next: string) => set({ variables: { ...values, [name]: next } });
            return (
              <Field
                key={name}
                label={`${name}${required ? " (required)" : ""}`}
                hint={description}
                error={faultOf(`variables\\.${name}`)}
              >
                {choices === undefined ? (
                  <TextInput value={values[name] ?? ""} onInput={put} placeholder={value ?? ""} />
                ) : (
                  <Select
                    value={values[name] ?? ""}
                    options={[{ value: "", title: value ?? "–" }, ...choices]}
                    onChange={put}
                  />
                )}
              </Field>
            );
          })}
        </Bar>
      )}
      <Bar>
        <Field label="temperature" error={faultOf("temperature")}>
          <TextInput
            type="number"
            min={0}
            max={2}
            step={0.1}
            value={temperature}
            onInput={(value) => set({ temperature: value })}
          />
        </Field>
        <Field label="max_tokens" error={faultOf("max_(completion_)?tokens")}>
          <TextInput type="number" min={1} value={maxTokens} onInput={(value) => set({ maxTokens: value })} />
        </Field>
        <Field label="thinking_budget" error={faultOf("thinking_budget")}>
          <TextInput
            type="number"
            min={-1}
            value={thinkingBudget}
            onInput={(value) => set({ thinkingBudget: value })}
          />
        </Field>
        <Check label="include_thoughts" checked={thoughts} onChange={(value) => set({ thoughts: value })} />
      </Bar>
      <details open={system !== "" || tools !== ""}>
        <summary>System text and tools</summary>
        <Field
          label="System text"
          hint={hasModel ? "For models; a persona has its own." : "For models alone: a persona has its own."}
        >
          <TextArea value={system} rows={3} disabled={!hasModel} onInput={(value) => set({ system: value })} />
        </Field>
        <Field label="tools, as JSON" error={toolsFault(tools) ?? faultOf("tools")}>
          <TextArea
            value={tools}
            rows={4}
            placeholder={'[{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]'}
            onInput={(value) => set({ tools: value })}
          />
        </Field>
      </details>
    </details>
  );
}
