/** Reports of the doctor, as the API answers them. */
import { Type } from "@sinclair/typebox";
import { titled, Words } from "../lib/json/schemas.ts";
import { type Answer, OrNull } from "./shape.ts";

/** Findings of one kind that are listed. */
export const maxOfKind = 50;

/** How findings weigh, the worst first. */
export const levels = ["error", "warning", "ok"] as const;

export const DoctorReport = Type.Object({
  object: Type.Literal("doctor.report"),
  at: Type.String({ description: "When the checks began." }),
  ok: Type.Boolean({ description: "false: there is an error. Warnings are none." }),
  counts: Type.Object(
    { error: Type.Integer(), warning: Type.Integer(), ok: Type.Integer() },
    { description: "Of all findings, those too that are not listed." },
  ),
  findings: Type.Array(
    Type.Object({
      level: Words(levels),
      place: Type.String({ description: "What was checked, such as data folder." }),
      message: Type.String({ description: "What was found." }),
      advice: OrNull(Type.String(), { description: "What to do; null: all is well." }),
    }),
    {
      description: `The worst first. Of many of one kind the first ${maxOfKind} are listed, and how many more there are.`,
    },
  ),
});
export type DoctorReport = Answer<typeof DoctorReport>;
export type DoctorFinding = DoctorReport["findings"][number];

titled({ DoctorReport });
