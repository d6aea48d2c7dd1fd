/** Variants of a persona: their files, their shares, and the counts that stop them. */
import { describe, expect, test } from "bun:test";
import { formatDiagnostic } from "../../../src/lib/yaml/yaml.ts";
import type { Partials } from "../../../src/personas/file/includes.ts";
import { draftPersona, parsePersona, type Variant } from "../../../src/personas/persona.ts";
import { chooseVariant } from "../../../src/personas/versions/variant-choice.ts";
import { countBeyond } from "../../../src/personas/versions/variants.ts";
import { Random } from "../../helpers/random.ts";

const head = `description: Helps.
model: openai/a
system: Hello {{name}}, be brief.
variables: { name: {} }
defaults: { temperature: 0.9 }
limits: { temperature: 1 }
`;

function parsed(variants: string) {
  const found = parsePersona(`${head}variants:\n${variants}`, "f.yaml", "acme/x");
  if ("errors" in found) throw new Error(found.errors.map(formatDiagnostic).join("\n"));
  return found.persona;
}

function errorsOf(variants: string, before = head): string[] {
  const found = parsePersona(`${before}variants:\n${variants}`, "f.yaml", "acme/x");
  return "errors" in found ? found.errors.map(({ path, message }) => `${path}: ${message}`) : [];
}

describe("a file", () => {
  test("makes a frozen persona of each variant, with its own fields as a whole", () => {
    const { variants } = parsed(`
  - weight: 90
  - name: next
    weight: 10
    model: [openai/b, openai/c]
    system: Hi.
    defaults: { max_tokens: 7 }
    options: { service_tier: flex }
`);
    const [now, next] = variants!;
    expect([now!.name, now!.weight, now!.persona.targets, now!.persona.defaults]).toEqual([
      "1",
      90,
      ["openai/a"],
      { temperature: 0.9 },
    ]);
    expect([next!.name, next!.weight]).toEqual(["next", 10]);
    expect(next!.persona).toMatchObject({
      id: "acme/x",
      targets: ["openai/b", "openai/c"],
      system: [{ text: "Hi." }],
      defaults: { max_tokens: 7 },
      limits: { temperature: 1 },
      options: { service_tier: "flex" },
    });
    expect(next!.persona.variables.has("name")).toBe(true);
    expect(next!.persona.variants).toBeUndefined();
    expect(Object.isFrozen(next!.persona.defaults)).toBe(true);
  });

  test.each([
    [
      "names its fields' places",
      "  - weight: 1\n  - weight: 1\n    system: 'Hi {{nobody}}'\n    tools: [{type: function, function: {name: a}}, {type: function, function: {name: a}}]\n",
      [
        "variants[1].system: uses {{nobody}}, which variables does not declare",
        "variants[1].tools[1].function.name: repeats a",
      ],
    ],
    [
      "is wrong with the persona's other fields",
      "  - weight: 1\n  - weight: 1\n    limits: { temperature: 0.5 }\n",
      ["variants[1]: leaves defaults.temperature wrong: it must not be above its limit, 0.5"],
    ],
    [
      "repeats a name, also one that is a number",
      "  - weight: 1\n  - weight: 1\n    name: '1'\n",
      ["variants[1].name: repeats 1"],
    ],
    [
      "has what is no variant's",
      "  - weight: 1\n  - weight: 1\n    variables: {}\n    tier: pro\n",
      ["variants[1].variables: is not a known key", "variants[1].tier: is not a known key"],
    ],
    ["is alone", "  - weight: 1\n", ["variants: must have at least 2 items"]],
    [
      "leaves nowhere to go",
      "  - weight: 1\n    until: { calls: 100, error_rate: 0.05 }\n  - weight: 0\n",
      ["variants: must have one with a weight and without until, to which all go when others stop"],
    ],
    [
      "can't stop",
      "  - weight: 1\n  - weight: 1\n    until: { calls: 100 }\n",
      ["variants[1].until: must have one of error_rate, refusals, p95_seconds and cost"],
    ],
    [
      "can't reach its bound but by chance",
      "  - weight: 1\n  - weight: 1\n    until: { calls: 10, error_rate: 0.9 }\n",
      ["variants[1].until.error_rate: can't stop it: in 10 calls even all of them may be chance; give more calls"],
    ],
  ])("that %s is refused", (_, variants, expected) => {
    expect(errorsOf(variants)).toEqual(expected);
  });

  test("may include files in a variant's text, and errors there have their places", () => {
    const partials: Partials = {
      find: (path) => (path === "acme/tone.md" ? { text: "Be {{name}} and {{kind}}.\n" } : { problem: "is not there" }),
      nameOf: (path) => `personas/${path}`,
    };
    const resolvedBy = (variants: string) => {
      const draft = draftPersona(`${head}variants:\n${variants}`, "f.yaml", "acme/x");
      if ("errors" in draft) return draft.errors.map(formatDiagnostic);
      const found = draft.resolve(partials);
      if ("missing" in found) throw new Error("all are there");
      return "errors" in found
        ? found.errors.map(formatDiagnostic)
        : found.persona.variants!.map(({ persona }) => persona.system);
    };
    expect(resolvedBy("  - weight: 1\n  - weight: 1\n    system: 'Hi. {{> tone}}'\n")).toEqual([
      "personas/acme/tone.md:1:17: uses {{kind}}, which variables does not declare (in the system text of acme/x)",
    ]);
    expect(resolvedBy("  - weight: 1\n  - weight: 1\n    system_file: tone\n")).toEqual([
      "personas/acme/tone.md:1:17: uses {{kind}}, which variables does not declare (in the system text of acme/x)",
    ]);
    expect(resolvedBy("  - weight: 1\n  - weight: 1\n    system_file: none\n    system: Hi.\n")).toEqual([
      "f.yaml:10:5: variants[1].system_file: stands beside system, which says the same: give one",
    ]);
    expect(resolvedBy("  - weight: 1\n  - weight: 1\n    system: 'Hi {{> none}}'\n")).toEqual([
      "f.yaml:10:17: variants[1].system: 'none' is not there",
    ]);
  });

  test("may have its own MCP tools, or none", () => {
    const { variants } = parsed(
      "  - weight: 1\n    mcp: [{ server: github, allow: [search_issues] }]\n  - weight: 1\n",
    );
    expect(variants!.map((one) => one.persona.mcp?.map(({ server }) => server))).toEqual([["github"], undefined]);
    expect(errorsOf("  - weight: 1\n    mcp_limits: { calls: 2 }\n  - weight: 1\n")).toEqual([
      "variants[0].mcp_limits: belongs beside mcp or skills",
    ]);
  });

  test("has one version, whichever variant answers", () => {
    const persona = parsed("  - weight: 1\n  - weight: 1\n    system: Hi.\n");
    expect(persona.variants!.map((one) => one.persona.version)).toEqual([persona.version, persona.version]);
    expect(parsed("  - weight: 1\n  - weight: 2\n    system: Hi.\n").version).not.toBe(persona.version);
  });

  test("says an error of the persona's once", () => {
    const before = head.replace("temperature: 0.9", "temperature: 1.9");
    expect(errorsOf("  - weight: 1\n  - weight: 1\n", before)).toEqual([
      "defaults.temperature: must not be above its limit, 1",
    ]);
  });

  test("may have variables that only a variant's text uses", () => {
    const before = head.replace("Hello {{name}}, be brief.", "Hello, be brief.");
    expect(errorsOf("  - weight: 1\n  - weight: 1\n    system: Hi {{name}}.\n", before)).toEqual([]);
  });
});

const variant = (name: string, weight: number): Variant => ({
  name,
  weight,
  persona: parsed("  - weight: 1\n  - weight: 1\n"),
});

/** Of a binomial count: six standard deviations, which one of a billion counts is beyond. */
const withinChance = (calls: number, share: number) => 6 * Math.sqrt(calls * share * (1 - share));

describe("callers", () => {
  const callers = Array.from({ length: 20_000 }, (_, at) => `user caller-${at}`);
  const chosenBy = (id: string, variants: readonly Variant[]) =>
    callers.map((caller) => chooseVariant(id, variants, caller)!.name);

  test("get their shares, in every persona others", () => {
    const random = new Random(5);
    for (let round = 0; round < 20; round += 1) {
      const weights = Array.from({ length: 2 + random.below(4) }, () => random.below(1000));
      if (weights.every((weight) => weight === 0)) continue;
      const variants = weights.map((weight, at) => variant(`v${at}`, weight));
      const sum = weights.reduce((a, b) => a + b);
      const chosen = chosenBy(`acme/p${round}`, variants);
      for (const [at, weight] of weights.entries()) {
        const found = chosen.filter((name) => name === `v${at}`).length;
        const share = weight / sum;
        expect(Math.abs(found - callers.length * share)).toBeLessThanOrEqual(withinChance(callers.length, share));
      }
    }
    const small = [variant("a", 95), variant("b", 5)];
    const inBoth = chosenBy("acme/one", small).filter((name, at) => name === "b" && chosenBy2[at] === "b").length;
    expect(Math.abs(inBoth - callers.length * 0.0025)).toBeLessThanOrEqual(withinChance(callers.length, 0.0025));
  });
  const chosenBy2 = chosenBy("acme/two", [variant("a", 95), variant("b", 5)]);

  test("stay, and only as many move as a changed weight asks for, to or from its variant", () => {
    const random = new Random(6);
    for (let round = 0; round < 20; round += 1) {
      const weights = Array.from({ length: 2 + random.below(4) }, () => 1 + random.below(100));
      const variants = weights.map((weight, at) => variant(`v${at}`, weight));
      const changed = random.below(weights.length);
      const after = variants.map((one, at) => (at === changed ? { ...one, weight: 1 + random.below(100) } : one));
      const before = chosenBy("acme/x", variants);
      expect(chosenBy("acme/x", variants)).toEqual(before);
      const now = chosenBy("acme/x", after);
      const shareOf = (all: readonly Variant[]) =>
        all[changed]!.weight / all.reduce((sum, { weight }) => sum + weight, 0);
      const moved = before.flatMap((name, at) => (name === now[at] ? [] : [[name, now[at]]]));
      for (const pair of moved) expect(pair).toContain(`v${changed}`);
      const share = Math.abs(shareOf(after) - shareOf(variants));
      expect(Math.abs(moved.length - callers.length * share)).toBeLessThanOrEqual(withinChance(callers.length, share));
    }
  });

  test("of a variant that stopped go to the rest by their weights, and no other moves", () => {
    const variants = [variant("a", 60), variant("b", 10), variant("c", 30)];
    const before = chosenBy("acme/x", variants);
    const now = callers.map((caller) => chooseVariant("acme/x", variants, caller, ({ name }) => name === "b")!.name);
    const moved = now.filter((_, at) => before[at] === "b");
    expect(now.filter((_, at) => before[at] !== "b")).toEqual(before.filter((name) => name !== "b"));
    expect(moved).not.toContain("b");
    const toA = moved.filter((name) => name === "a").length;
    expect(Math.abs(toA - moved.length * (2 / 3))).toBeLessThanOrEqual(withinChance(moved.length, 2 / 3));
  });
});

describe("the count that stops a variant", () => {
  test.each([
    [10, 0.5, 10],
    [50, 0.05, 9],
    [100, 0.05, 14],
    [200, 0.05, 22],
    [200, 0.1, 35],
    [500, 0.02, 22],
    [1000, 0.05, 74],
    [100, 0, 1],
  ])("of %i calls, where %f may fail, is %i", (calls, share, count) => {
    expect(countBeyond(calls, share)).toBe(count);
  });

  test("comes by chance in at most one of a thousand windows, and one less comes more often", () => {
    const random = new Random(7);
    for (let round = 0; round < 50; round += 1) {
      const calls = 10 + random.below(400);
      const share = (1 + random.below(90)) / 100;
      const found = countBeyond(calls, share);
      const tailOf = (count: number) => binomialTail(calls, share, count);
      if (found === undefined) expect(tailOf(calls)).toBeGreaterThan(0.001);
      else {
        expect(tailOf(found)).toBeLessThanOrEqual(0.001 + 1e-9);
        expect(tailOf(found - 1)).toBeGreaterThan(0.001 - 1e-9);
      }
    }
  });
});

/** P(X ≥ count), added up call by call. */
function binomialTail(calls: number, share: number, count: number): number {
  let chances = [1];
  for (let call = 0; call < calls; call += 1)
    chances = [...chances, 0].map((chance, at) => chance * (1 - share) + (chances[at - 1] ?? 0) * share);
  return chances.slice(count).reduce((sum, chance) => sum + chance, 0);
}
