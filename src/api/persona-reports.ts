/** Reports on what branches change in personas, as they are uploaded and answered. */
import { type Static, Type } from "@sinclair/typebox";
import { Closed, Open, titled, Words } from "../lib/json/schemas.ts";
import { PersonaPush } from "./personas.ts";
import type { Answer } from "./shape.ts";

/** As many as a folder may have. */
const maxPersonas = 2000;
export const maxTests = 200;

const Side = Type.Object({
  verdict: Words(["pass", "fail", "error"]),
  reason: Type.String({ description: "Why it did not pass." }),
  is_unrecorded: Type.Optional(Type.Literal(true)),
  answer: Type.Optional(Type.String({ description: "Around what differs, where it is long." })),
  cost: Type.Optional(Type.Number({ description: "Dollars." })),
  latency_ms: Type.Optional(Type.Number()),
});
const Test = Type.Object({
  name: Type.String(),
  change: Words(["same", "edited", "new", "gone"]),
  before: Type.Optional(Side),
  after: Type.Optional(Side),
});
const File = Type.Object({
  file: Type.String(),
  change: Words(["changed", "new", "gone", "moved"]),
  patch: Type.Optional(Type.String()),
});
const Request = Type.Object({
  model: Type.String(),
  change: Words(["same", "changed", "new", "gone"]),
  changes: Type.Array(Type.String()),
});
const Version = Type.Optional(Type.Object({ version: Type.String() }));

export const ReportedPersona = Open({
  id: Type.String({ minLength: 3, maxLength: 256, description: "<namespace>/<name>." }),
  change: Words(["changed", "new", "gone", "renamed", "same"]),
  before: Version,
  after: Version,
  summary: Type.Array(Type.String(), { description: "Versions, tests passed, cost and latency before and after." }),
  must_see: Type.Array(Type.String(), { description: "What a reviewer must see, the worst first." }),
  patch: Type.String({ description: "A unified diff of its content, includes in place." }),
  knowledge: Type.Array(File),
  requests: Type.Array(Request, { description: "What providers are sent differently." }),
  tests: Type.Array(Test, { maxItems: maxTests, description: "Those about which there is something to say." }),
  same_tests: Type.Integer({ minimum: 0 }),
  is_cut: Type.Optional(
    Type.Literal(true, { description: "Diffs, answers or tests were too long, and are left out." }),
  ),
});
export type ReportedPersona = Static<typeof ReportedPersona>;

export const ReportUpload = Closed({
  against: Open({ ref: Type.String({ maxLength: 256 }), commit: Type.String({ maxLength: 64 }) }),
  personas: Type.Array(ReportedPersona, { maxItems: maxPersonas }),
});
export type ReportUpload = Static<typeof ReportUpload>;

/** Of one persona. */
export const PersonaReportPart = Type.Object({
  object: Type.Literal("persona.report"),
  ...PersonaPush.properties,
  against: ReportUpload.properties.against,
  persona: ReportedPersona,
});
export type PersonaReportPart = Answer<typeof PersonaReportPart>;
export type ReportedTest = PersonaReportPart["persona"]["tests"][number];

titled({ ReportedPersona, ReportUpload, ReportedTest: Test, PersonaReportPart });
