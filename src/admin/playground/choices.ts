/** Who the playground can ask: personas, their versions, aliases and models, found by parts of their names. */
import type { PlaygroundModel as Choice } from "../../api/playground.ts";
import { standsFor } from "../../call/admit/named.ts";
import type { Services } from "../../call/services.ts";
import { gatewayModelIds, pricingOf } from "../../http/models/models.ts";
import { truncate } from "../../lib/text/truncate.ts";
import { isoTime } from "../../lib/time/clock.ts";
import { listPreviews } from "../../operate/previews.ts";
import { splitReference } from "../../personas/versions/references.ts";

const maxTitle = 200;
const choice = (kind: Choice["kind"], id: string, title: string, persona: string | null): Choice => ({
  object: "playground.model",
  ...{ id, kind, title: truncate(title, maxTitle), persona },
});

/** Versions of a persona that are kept or served, labels and previews. @param beginning of what stands behind the `@` */
async function versionsOf({ store, clock, personas }: Services, id: string, beginning: string): Promise<Choice[]> {
  const [kept, labels] = await Promise.all([store.personaVersions.list(id), store.personaVersions.labels()]);
  const pushed = (await listPreviews({ store, clock })).filter((one) =>
    one.personas.some((persona) => persona.id === id),
  );
  const own = labels.filter(({ persona }) => persona === id);
  const served = personas.find(id)?.version;
  const versions = new Set([...(served === undefined ? [] : [served]), ...kept.map(({ version }) => version)]);
  const titleOf = (version: string) => [
    ...(version === served ? ["in service"] : []),
    ...own.filter((one) => one.version === version).map(({ label }) => label),
  ];
  return [
    ...own.map(({ label, version }) => choice("version", `${id}@${label}`, version, id)),
    ...pushed.map(({ label, keyName, endsAt }) =>
      choice("version", `${id}@${label}`, `preview by ${keyName} until ${isoTime(endsAt).slice(0, 10)}`, id),
    ),
    ...[...versions].map((version) => choice("version", `${id}@${version}`, titleOf(version).join(", "), id)),
  ].filter((one) => one.id.startsWith(`${id}@${beginning}`));
}

/** With the prices of those that are models: of a page, as to look for all of them takes a while. */
export const priced = (services: Services, choices: readonly Choice[]): Choice[] =>
  choices.map((one) => {
    const pricing = one.kind === "model" ? pricingOf(services, one.id) : undefined;
    return pricing === undefined ? one : { ...one, pricing };
  });

/** @param first ids that go before all others @returns those that have all words, whose names begin with the search first */
export async function choicesFor(services: Services, search: string, first: readonly string[]): Promise<Choice[]> {
  const all = await found(services, search);
  const before = first.flatMap((id) => all.find((one) => one.id === id) ?? []);
  return before.length === 0 ? all : [...new Set([...before, ...all])];
}

async function found(services: Services, search: string): Promise<Choice[]> {
  const { personas, live } = services;
  const { id, reference } = splitReference(search) ?? {};
  if (id !== undefined && reference !== undefined) return versionsOf(services, id, reference);
  const asked = search.trim().toLowerCase();
  const words = asked.split(/\s+/);
  const fits = (...texts: string[]) => words.every((word) => texts.some((text) => text.toLowerCase().includes(word)));
  const personaOf = (model: string) => personas.find(model)?.id ?? null;
  const fitting = [
    ...personas
      .list()
      .flatMap((one) => (fits(one.id, one.description) ? choice("persona", one.id, one.description, one.id) : [])),
    ...live.aliases.list().flatMap(([name]) => {
      const meant = standsFor(services, name);
      return fits(name) ? choice("alias", name, meant, personaOf(meant)) : [];
    }),
    ...gatewayModelIds(services).flatMap((one) => (fits(one) ? choice("model", one, "", null) : [])),
  ];
  const rank = ({ id: own }: Choice): 0 | 1 | 2 | 3 => {
    const name = own.toLowerCase();
    if (name === asked) return 0;
    return name.startsWith(asked) ? 1 : name.includes(`/${asked}`) ? 2 : 3;
  };
  const groups = Map.groupBy(fitting, rank);
  return ([0, 1, 2, 3] as const).flatMap((one) => groups.get(one) ?? []);
}
