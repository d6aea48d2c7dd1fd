/** Acts of the audit in words. */
import type { ActName } from "../../../api/words.ts";
import { exactMoney } from "../../ui/numbers.ts";

/** What is said of each act, before the name of what it was done to. */
export const verbs: Readonly<Record<ActName, string>> = {
  "key.create": "made the key",
  "key.update": "changed the key",
  "key.rotate": "gave a new secret to the key",
  "key.revoke": "revoked the key",
  "budget.set": "set the budget of",
  "budget.top-up": "raised the budget of",
  "budget.remove": "removed the budget of",
  "persona.save": "saved the persona",
  "persona.save_tests": "saved the tests of",
  "persona.rollback": "rolled back the persona",
  "persona.label": "moved a label of",
  "persona.test": "ran the tests of",
  "preview.push": "pushed the preview",
  "preview.drop": "dropped the preview",
  "report.push": "uploaded the report of",
  "report.drop": "made room of the report of",
  "variant.stop": "stopped the variant",
  "variant.resume": "let the variant go on:",
  "variant.promote": "gave all callers to the variant",
  "provider.test": "sent a test call to",
  "playground.call": "asked in the playground:",
  "content.read": "read what was said in the call",
  "session.create": "signed in, by the session",
  "session.end": "ended the session",
  "session.sign_out": "signed out of the session",
  "facts.update": "took newer",
  "facts.rollback": "went back to earlier",
  "reconcile.run": "held the ledger against the reports of",
  "doctor.call": "had the doctor call the providers of",
};

/** @returns the act in words; one that is not known by its own name */
export const verbOf = (act: string): string => (Object.hasOwn(verbs, act) ? verbs[act as ActName] : `did ${act} to`);

const periods: Readonly<Record<string, string>> = { day: "a day", month: "a month", prepaid: "once" };

type Members = Readonly<Record<string, unknown>>;
const membersOf = (value: unknown): Members => (typeof value === "object" && value !== null ? (value as Members) : {});

/** @returns what says most of what was made, such as "pro" or "$25.00 a month"; empty: the changes beside it do */
export function detailsOf(act: string, subject: string, after: unknown): string {
  const { tier, limit_micro_dollars: micro, dollars } = membersOf(after);
  if (act === "key.create" && typeof tier === "string") return tier;
  if (act !== "budget.set") return "";
  const sum = typeof micro === "number" ? micro : typeof dollars === "number" ? Math.round(dollars * 1e6) : undefined;
  const period = subject.slice(subject.lastIndexOf("/") + 1);
  return sum === undefined ? "" : `${exactMoney(sum)} ${periods[period] ?? period}`;
}
