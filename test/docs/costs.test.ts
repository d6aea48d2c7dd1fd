/** The worked example of docs/costs.md, reckoned by the program. */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import manifest from "../../package.json" with { type: "json" };
import type { PriceConfig } from "../../src/config/config.ts";
import type { Usage } from "../../src/protocols/chat/schema.ts";
import { Prices } from "../../src/usage/prices/prices.ts";
import { countedOf } from "../../src/usage/tokens/counts.ts";
import packages from "../tools/prices/packages.json" with { type: "json" };

const addressOf: Readonly<Record<string, string>> = {
  "genai-prices": "https://github.com/pydantic/genai-prices",
  litellm: "https://github.com/BerriAI/litellm",
  "model-prices": "https://github.com/wakamex/model-prices",
};
const page = readFileSync("docs/costs.md", "utf8");
const yaml = /^```yaml\n(prices:[\s\S]*?)^```$/m.exec(page)![1]!;
const prices = new Prices((Bun.YAML.parse(yaml) as { prices: PriceConfig[] }).prices);
const rows = [...page.matchAll(/^\| `(\w+)\/(\S+)` \| (?:`(\w+)`)? ?\| (.*) \| (.*) \|$/gm)];
let usage: Usage | undefined;

test.each(rows.map(([, ...cells]) => cells))(
  "%s/%s costs what the page says (%s)",
  (provider, model, tier, told, cost) => {
    if (told !== "the same") usage = JSON.parse(told!.slice(1, -1)) as Usage;
    const target = {
      provider: provider!,
      dialect: provider!,
      baseUrl: "",
      model: model!,
      isLocal: false,
      isListed: false,
    };
    const priced = prices.price(target, countedOf(usage!), tier, Date.UTC(2026, 10, 22));
    const dollars = /\$(\d+\.\d{6})$/.exec(cost!)?.[1];
    expect(priced.cost).toBe(dollars === undefined ? null : Math.round(Number(dollars) * 1e6));
    if (dollars === undefined) expect(cost).toBe("unknown");
  },
);

test("the page has its rows, and the licences are of the versions that are installed", () => {
  expect(rows).toHaveLength(4);
  const licences = readFileSync("docs/third-party.md", "utf8");
  for (const [name, { version, released }] of Object.entries(packages))
    expect(licences).toContain(`[${name}](${addressOf[name]!}) ${version}, of ${released}`);
  expect(licences).toContain(`gpt-tokenizer) ${manifest.dependencies["gpt-tokenizer"]}:`);
  expect(readFileSync("src/facts/prices/list.txt", "utf8")).toStartWith(
    `{"as_of":"${/ of (\d{4}-\d\d-\d\d) \(MIT/.exec(page)![1]}"`,
  );
});
