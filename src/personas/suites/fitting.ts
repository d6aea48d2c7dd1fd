/** The assertion that fits an answer, where nobody has written one. */
import { isObject, parseJson } from "../../lib/json/json.ts";
import { outputOf, type TestAnswer } from "./answer.ts";

/** Characters of an answer that is expected again as a whole. */
const maxWhole = 80;

type Fitting = Readonly<Record<string, unknown>> & { readonly type: string };

/**
 * @param wanted a part of the answer, or what it has to do; absent: the answer itself says
 * @param grader that judges what no text shows
 * @returns undefined for a long text of which nobody knows what matters
 */
export function fittingAssertion(
  answer: Pick<TestAnswer, "content" | "refusal" | "toolCalls">,
  wanted: string | undefined,
  grader: string | undefined,
): Fitting | undefined {
  const output = outputOf({ ...answer, latencyMs: 0 });
  const text = typeof output === "string" ? output : (answer.content ?? "");
  if (wanted !== undefined) {
    if (text.includes(wanted)) return { type: "contains", value: wanted };
    if (text.toLowerCase().includes(wanted.toLowerCase())) return { type: "icontains", value: wanted };
    return { type: "llm-rubric", value: wanted, ...(grader !== undefined && { provider: grader }) };
  }
  const called = answer.toolCalls?.map((call) => call.function.name) ?? [];
  if (called.length > 0) return { type: "trajectory:tool-used", value: [...new Set(called)] };
  const data = parseJson(text);
  if (isObject(data) || Array.isArray(data)) return { type: "equals", value: data };
  const whole = text.trim();
  return whole !== "" && whole.length <= maxWhole ? { type: "contains", value: whole } : undefined;
}
