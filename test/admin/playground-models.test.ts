/** Whom the admin API's playground can ask, among very many. */
import { expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";

type Choice = { readonly id: string; readonly kind: string; readonly title: string; readonly persona: string | null };

test("personas, aliases, models and versions are found by parts of their names, bounded, the nearest first", async () => {
  using folder = new TempFolder();
  const text = (words: string) => `description: ${words}\nmodel: builtin/echo\nsystem: Plain.\n`;
  for (const namespace of ["acme", "bulk"]) mkdirSync(folder.file(namespace));
  writeFileSync(folder.file("acme/support.yaml"), text("Knows parcels."));
  for (let at = 0; at < 1_999; at += 1) writeFileSync(folder.file(`bulk/p${at}.yaml`), text(`Number ${at}.`));
  const names = Array.from({ length: 4_000 }, (_, at) => `open-model-${at}`);
  await using troupe = await Troupe.start({
    personas: folder.path,
    providers: { openai: { baseUrl: "http://127.0.0.1:9", models: [...names, "support-large"] } },
    config: {
      listen: [
        { address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces: ["orchestrator", "gateway", "admin"] },
      ],
      aliases: { helper: "acme/support" },
    },
  });
  const { services } = troupe.server;
  await services.loading;
  await services.personaVersions.record();
  const key = await troupe.createKey({ name: "admin", tier: "pro", perMinute: 10_000, surfaces: ["admin"] });
  const find = async (search: string, limit = "20") => {
    const query = new URLSearchParams({ search, limit });
    const answer = await troupe.fetch(`/admin/v1/playground/models?${query}`, { key });
    return (await answer.json()) as { readonly data: readonly Choice[]; readonly has_more: boolean };
  };
  const object = "playground.model";
  expect((await find("support")).data).toEqual([
    { object, id: "acme/support", kind: "persona", title: "Knows parcels.", persona: "acme/support" } as Choice,
    { object, id: "openai/support-large", kind: "model", title: "", persona: null } as Choice,
  ]);
  expect((await find("PARCELS")).data).toMatchObject([{ id: "acme/support" }]);
  expect((await find("openai 3999")).data).toMatchObject([{ id: "openai/open-model-3999" }]);
  expect((await find("openai/open-model-7", "1")).data).toMatchObject([{ id: "openai/open-model-7" }]);
  const many = await find("p1");
  expect([many.data.length, many.has_more, many.data[0]!.id]).toEqual([20, true, "bulk/p1"]);
  expect((await find("none of these")).data).toEqual([]);
  expect((await find("help")).data).toMatchObject([
    { id: "helper", kind: "alias", title: "acme/support", persona: "acme/support" },
  ]);
  const { version } = services.personas.find("acme/support")!;
  const line = { id: "m", at: 1, actor: "t", act: "persona.label", subject: "s", before: null, after: null };
  const label = { persona: "acme/support", label: "stable", version, movedAt: 1 };
  await services.store.personaVersions.moveLabel(label, null, line);
  expect((await find("acme/support@")).data).toMatchObject([
    { id: "acme/support@stable", kind: "version", title: version, persona: "acme/support" },
    { id: `acme/support@${version}`, kind: "version", title: "in service, stable", persona: "acme/support" },
  ]);
  expect((await find("acme/support@st")).data).toHaveLength(1);
});
