/** Tests of personas, as the API answers them. */
import { Type } from "@sinclair/typebox";
import { titled, Words } from "../lib/json/schemas.ts";
import { Finding } from "./findings.ts";
import { type Answer, OrNull } from "./shape.ts";

const Estimate = Type.Object({
  calls: Type.Integer({ description: "Grades included." }),
  most_micro_dollars: Type.Integer({ description: "That the calls whose price is known can cost." }),
  unknown_cost_calls: Type.Integer(),
});

export const Verdict = Words(["pass", "fail", "error"], { description: "error: it could not be judged." });
export type Verdict = Answer<typeof Verdict>;

export const PersonaTestRun = Type.Object({
  object: Type.Literal("persona.test_run"),
  persona: Type.String(),
  version: Type.String(),
  variant: OrNull(Type.String()),
  started_at: Type.String(),
  duration_ms: Type.Integer(),
  actor: Type.String(),
  passed: Type.Integer(),
  failed: Type.Integer(),
  errors: Type.Integer(),
  cost_micro_dollars: Type.Integer({ description: "Of the calls whose cost is known." }),
  unknown_cost_calls: Type.Integer(),
  tests: Type.Array(
    Type.Object({
      name: Type.String(),
      line: Type.Integer(),
      verdict: Verdict,
      reason: Type.String({ description: "Why it did not pass; else empty." }),
      output: OrNull(Type.String(), { description: "The beginning of the answer that decided." }),
      latency_ms: OrNull(Type.Integer()),
      runs: Type.Integer(),
    }),
  ),
});
export type PersonaTestRun = Answer<typeof PersonaTestRun>;

export const PersonaTests = Type.Object({
  object: Type.Literal("persona.tests"),
  persona: Type.String(),
  file: OrNull(Type.String(), { description: "Null: there is none." }),
  tests: Type.Array(Type.Object({ name: Type.String(), line: Type.Integer(), assertions: Type.Integer() })),
  findings: Type.Array(Finding),
  estimate: Estimate,
  last_run: OrNull(PersonaTestRun, {
    description: "Of all tests, without a variant. Of a long one answers are left out.",
  }),
});
export type PersonaTests = Answer<typeof PersonaTests>;

titled({ PersonaTestRun });
