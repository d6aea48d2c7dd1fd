/** What was found for a question is kept until the index changes. */
import { expect, test } from "bun:test";
import { PersonaKnowledge } from "../../src/call/plan/knowledge.ts";
import { Registry } from "../../src/lib/process/metrics.ts";
import type { FoundSection } from "../../src/lib/text/sections.ts";
import type { Persona } from "../../src/personas/persona.ts";
import type { KnowledgeIndex } from "../../src/store/contract/knowledge.ts";
import { ManualClock } from "../helpers/manual-clock.ts";
import { silentLogger } from "../helpers/silent-logger.ts";

const knowing = (namespace: string) =>
  ({ id: `${namespace}/clerk`, knowledge: { files: ["a.md"], tokens: 1500, sections: 5 } }) as unknown as Persona;
const asking = (content: string) => [{ role: "user" as const, content }];

test("a question that was asked before is answered at once, for the same persona alone, and not after a change", async () => {
  const searched: string[] = [];
  let state = "old";
  let held: PromiseWithResolvers<void> | undefined;
  const section = (text: string): FoundSection => ({
    ...{ file: "a.md", heading: "", firstLine: 1, lastLine: 1, score: 1 },
    text,
  });
  const index: KnowledgeIndex = {
    sync: async () => ({ files: 1, sections: 1, indexed: 1, removed: 0, problems: [] }),
    async search(collection, question) {
      const found = [section(`${state} ${collection}`)];
      searched.push(question);
      await held?.promise;
      return found;
    },
    close: async () => {},
  };
  const options = { index, folder: "/personas", clock: new ManualClock(), log: silentLogger, metrics: new Registry() };
  const knowledge = new PersonaKnowledge(options);
  const [shop, tale] = [knowing("shop"), knowing("tale")];
  await knowledge.update([shop, tale]);
  const first = await knowledge.find(shop, asking("refund?"));
  expect(await knowledge.find(shop, asking("refund?"))).toBe(first);
  expect(await knowledge.find(tale, asking("refund?"))).not.toEqual(first);
  expect(searched).toEqual(["refund?", "refund?"]);
  // A search that began before a change is kept by nobody after it.
  held = Promise.withResolvers();
  const late = knowledge.find(shop, asking("late?"));
  state = "new";
  await knowledge.update([shop, tale]);
  held.resolve();
  expect((await late)[0]!.text).toStartWith("old ");
  for (const question of ["late?", "refund?"])
    expect((await knowledge.find(shop, asking(question)))[0]!.text).toStartWith("new ");
  // Neither long questions nor many are kept.
  const long = "long ".repeat(1_000);
  for (let times = 0; times < 2; times += 1) await knowledge.find(shop, asking(long));
  expect(searched.filter((question) => question === long)).toHaveLength(2);
  for (let at = 0; at < 100; at += 1) await knowledge.find(shop, asking(`question ${at}`));
  await knowledge.find(shop, asking("refund?"));
  expect(searched.filter((question) => question === "refund?")).toHaveLength(4);
});
