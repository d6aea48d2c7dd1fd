/** What tools give that a model called: whoever tries it answers in their place. */
import { Button, Field, TextArea } from "../../ui/form.tsx";
import { Bar } from "../../ui/layout.tsx";
import type { ToolCall, Turn } from "./call.ts";
import { toolTexts } from "./state.ts";

/** Calls of tools in the last answer of a column. */
export type Pending = { readonly column: number; readonly name: string; readonly tools: readonly ToolCall[] };

const keyOf = (column: number, { id }: ToolCall) => `${column} ${id}`;

export function ToolAnswers({
  pending,
  isReady,
  onSend,
}: {
  readonly pending: readonly Pending[];
  readonly isReady: boolean;
  readonly onSend: (turn: Turn) => void;
}) {
  const send = () => {
    const results: Record<string, string>[] = [];
    for (const { column, tools } of pending)
      results[column] = Object.fromEntries(tools.map((tool) => [tool.id, toolTexts.value[keyOf(column, tool)] ?? ""]));
    toolTexts.value = {};
    onSend({ text: "", results });
  };
  return (
    <section class="panel composer" aria-label="Tools that were called">
      {pending.map(({ column, name, tools }) =>
        tools.map((tool) => (
          <Field key={keyOf(column, tool)} label={`What ${tool.name} gives to ${name}`} hint={tool.args.slice(0, 200)}>
            <TextArea
              rows={2}
              placeholder={'{"celsius": 7}'}
              value={toolTexts.value[keyOf(column, tool)] ?? ""}
              onInput={(text) => {
                toolTexts.value = { ...toolTexts.value, [keyOf(column, tool)]: text };
              }}
            />
          </Field>
        )),
      )}
      <Bar>
        <Button tone="primary" disabled={!isReady} onClick={send}>
          Answer the tool calls
        </Button>
        <span class="muted">Or ask something else below, and leave them unanswered.</span>
      </Bar>
    </section>
  );
}
