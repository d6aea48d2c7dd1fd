/**
 * What a reviewer of a changed persona must see: what it may do that it could not do before, and what of its bounds is gone. Sentences
 * without their subject, derived from the contents of both sides. Pure.
 */
import { globMatches } from "../../lib/text/glob.ts";
import { truncate } from "../../lib/text/truncate.ts";
import { type Tier, tiers } from "../../protocols/tiers.ts";
import { entriesOf, exceeds, type Sampling, spellingsOf } from "../compose/sampling.ts";
import type { PersonaContent } from "../file/schema.ts";
import { scriptsOf } from "../skills/schema.ts";
import { variantName, withVariant } from "../versions/variants.ts";
import { codeMarked } from "./code-mark.ts";

type Two = { readonly before: PersonaContent; readonly after: PersonaContent };
type Rule = (two: Two) => string[];

const maxShown = 160;
const quoted = (value: unknown) => truncate(JSON.stringify(value), maxShown);
const named = (names: readonly string[]) => names.map(codeMarked).join(", ");
const modelsOf = ({ model }: PersonaContent): readonly string[] => [model].flat();

const isMissingIn =
  <T>(others: readonly T[]) =>
  (one: T) =>
    !others.includes(one);

const models: Rule = ({ before, after }) => {
  const [old, now] = [modelsOf(before), modelsOf(after)];
  const said: string[] = [];
  if (old[0] !== now[0]) said.push(`asks another model first: ${named([old[0]!])} → ${named([now[0]!])}`);
  const [come, gone] = [now.filter(isMissingIn(old)), old.filter(isMissingIn(now))];
  if (come.some((one) => one !== now[0])) said.push(`may ask new models: ${named(come)}`);
  if (gone.some((one) => one !== old[0])) said.push(`asks no more: ${named(gone)}`);
  const isReordered = come.length + gone.length === 0 && old.join(" ") !== now.join(" ");
  if (isReordered && said.length === 0) said.push(`tries its models in another order: ${named(now)}`);
  return said;
};

type Named = { readonly name: string; readonly value: unknown };

/** Function tools, and those that a provider runs. */
function toolsOf({ tools = [], options }: PersonaContent): Named[] {
  const hosted = (options as { server_tools?: unknown } | undefined)?.server_tools;
  return [
    ...tools.map((tool) => ({ name: tool.function.name, value: tool })),
    ...(Array.isArray(hosted) ? hosted : []).map((tool: { type?: string }) => ({
      name: `${tool.type ?? "tool"} of the provider`,
      value: tool,
    })),
  ];
}

const tools: Rule = ({ before, after }) => {
  const [old, now] = [toolsOf(before), toolsOf(after)];
  const come = now.filter(({ name }) => !old.some((one) => one.name === name));
  const gone = old.filter(({ name }) => !now.some((one) => one.name === name));
  const changed = now.filter((tool) => {
    const earlier = old.find(({ name }) => name === tool.name);
    return earlier !== undefined && !Bun.deepEquals(earlier.value, tool.value, true);
  });
  return [
    ...(come.length > 0 ? [`has new tools: ${named(come.map(({ name }) => name))}`] : []),
    ...(changed.length > 0 ? [`describes tools differently: ${named(changed.map(({ name }) => name))}`] : []),
    ...(gone.length > 0 ? [`has lost tools: ${named(gone.map(({ name }) => name))}`] : []),
  ];
};

type Grant = NonNullable<PersonaContent["mcp"]>[number];

function grantChanges({ server, allow: old, arguments: pinned }: Grant, now: Grant): string[] {
  const fixed = (pinned ?? {}) as Readonly<Record<string, unknown>>;
  const said: string[] = [];
  const at = ` at the MCP server ${named([server])}`;
  const wider = (now.allow ?? ["*"]).filter((name) => !(old ?? ["*"]).some((glob) => globMatches(glob, name)));
  if (wider.length > 0) said.push(`may call more${at}: ${now.allow === undefined ? "all its tools" : named(wider)}`);
  const narrower = (old ?? ["*"]).filter((name) => !(now.allow ?? ["*"]).some((glob) => globMatches(glob, name)));
  if (narrower.length > 0 && wider.length === 0) said.push(`may call less${at}: no more ${named(narrower)}`);
  const free = Object.keys(fixed).filter((name) => !Object.hasOwn(now.arguments ?? {}, name));
  if (free.length > 0) said.push(`leaves arguments to the model that were fixed${at}: ${named(free)}`);
  const other = Object.entries(now.arguments ?? {}).filter(([name, value]) => !Bun.deepEquals(fixed[name], value));
  if (other.length > 0) said.push(`fixes other arguments${at}: ${named(other.map(([name]) => name))}`);
  return said;
}

const servers: Rule = ({ before, after }) => {
  const [old, now] = [before.mcp ?? [], after.mcp ?? []];
  return [
    ...now.flatMap((grant) => {
      const earlier = old.find(({ server }) => server === grant.server);
      if (earlier !== undefined) return grantChanges(earlier, grant);
      const which = grant.allow === undefined ? "all its tools" : named(grant.allow);
      return [`may call tools of the MCP server ${named([grant.server])}: ${which}`];
    }),
    ...old
      .filter(({ server }) => !now.some((one) => one.server === server))
      .map(({ server }) => `calls no more tools of the MCP server ${named([server])}`),
  ];
};

/** What it reads up while it answers. A name that is in the system text says when. */
const skills: Rule = ({ before, after }) => {
  const of = ({ skills = [] }: PersonaContent) =>
    new Map(skills.flatMap((one) => (typeof one === "string" ? [] : [[one.name, one]])));
  const [old, now] = [of(before), of(after)];
  const come = [...now.values()].filter(({ name }) => !old.has(name));
  const changed = [...now.values()].filter(
    ({ name }) => old.has(name) && !Bun.deepEquals(old.get(name), now.get(name)),
  );
  const gone = [...old.keys()].filter((name) => !now.has(name));
  const scripts = [...come, ...changed].flatMap((skill) => scriptsOf(skill).map((file) => `${skill.name}/${file}`));
  return [
    ...come.map(
      ({ name, description }) => `has a new skill ${named([name])}: ${codeMarked(truncate(description, maxShown))}`,
    ),
    ...(changed.length > 0 ? [`has skills that say something else: ${named(changed.map(({ name }) => name))}`] : []),
    ...(gone.length > 0 ? [`has lost skills: ${named(gone)}`] : []),
    ...(scripts.length > 0 ? [`has programs in its skills, which are never run here: ${named(scripts)}`] : []),
  ];
};

/** Bounds of sampling, and of tools by MCP. */
function bounds(
  what: "limits" | "mcp_limits",
  isWider: (name: string, now: string | number, old: string | number) => boolean,
): Rule {
  return ({ before, after }) => {
    const entries = (content: PersonaContent) =>
      what === "limits"
        ? entriesOf((content.limits ?? {}) as Sampling).map(([name, value]) => [spellingsOf(name)[0]!, value] as const)
        : (Object.entries(content.mcp_limits ?? {}) as [string, number][]);
    const [old, now] = [
      new Map<string, string | number>(entries(before)),
      new Map<string, string | number>(entries(after)),
    ];
    return [
      ...[...old].flatMap(([name, value]) => {
        const other = now.get(name);
        if (other === undefined) return [`has lost a limit: ${named([`${what}.${name}`])}, which was ${value}`];
        if (!isWider(name, other, value)) return [];
        return [`has a wider limit: ${named([`${what}.${name}`])} ${value} → ${other}`];
      }),
    ];
  };
}

const audience: Rule = ({ before, after }) => {
  const [old, now] = [before.tier ?? "free", after.tier ?? "free"] as [Tier, Tier];
  if (old === now) return [];
  const isWider = tiers.indexOf(now) < tiers.indexOf(old);
  return [`is for ${isWider ? "more" : "fewer"} callers: tier ${named([old])} → ${named([now])}`];
};

const privacy: Rule = ({ before, after }) => [
  ...(after.store === true && before.store !== true ? ["keeps conversations now (`store`)"] : []),
  ...(before.hide_upstream === true && after.hide_upstream !== true
    ? ["shows which provider and model answer (`hide_upstream` is gone)"]
    : []),
];

/** Calls that were taken and now get 400. */
const callers: Rule = ({ before, after }) => {
  const [old, now] = [before.variables ?? {}, after.variables ?? {}];
  const gone = Object.keys(old).filter((name) => !Object.hasOwn(now, name));
  const needed = Object.keys(now).filter((name) => now[name]!.required === true && old[name]?.required !== true);
  const narrowed = Object.keys(now).filter((name) => {
    const [earlier, later] = [old[name], now[name]!];
    if (earlier === undefined) return false;
    const isShorter = (later.max_length ?? 2000) < (earlier.max_length ?? 2000);
    const lost = later.enum !== undefined && (earlier.enum?.some((one) => !later.enum!.includes(one)) ?? true);
    return isShorter || lost;
  });
  return [
    ...(needed.length > 0 ? [`refuses calls without ${named(needed)}, which ${are(needed)} required now`] : []),
    ...(gone.length > 0 ? [`refuses calls that send ${named(gone)}, which ${are(gone)} no variable any more`] : []),
    ...(narrowed.length > 0 ? [`refuses values of ${named(narrowed)} that it took before`] : []),
  ];
};
const are = (names: readonly string[]) => (names.length === 1 ? "is" : "are");

const answers: Rule = ({ before, after }) => {
  const [old, now] = [before.response_format, after.response_format];
  if (Bun.deepEquals(old, now, true)) return [];
  return [
    `answers in another form: \`response_format\` ${quoted(old?.type ?? "none")} → ${quoted(now?.type ?? "none")}`,
  ];
};

const rules: readonly Rule[] = [
  models,
  tools,
  servers,
  skills,
  bounds("limits", (name, now, old) => exceeds(name as "temperature", now, old)),
  bounds("mcp_limits", (_, now, old) => now > old),
  audience,
  privacy,
  callers,
  answers,
];

/** The persona as each group of its callers meets it. */
const sidesOf = (content: PersonaContent): Map<string, PersonaContent> => {
  const { variants = [], ...plain } = content;
  const sides = variants.map((one, at): [string, PersonaContent] => [variantName(one, at), withVariant(content, one)]);
  return new Map([["", plain], ...sides]);
};

function shares(before: PersonaContent, after: PersonaContent): string[] {
  const [old, now] = [before.variants ?? [], after.variants ?? []];
  const wordsOf = (variants: typeof now) =>
    variants.map((one, at) => `${variantName(one, at)} ${one.weight}`).join(", ");
  const said: string[] = [];
  if (wordsOf(old) !== wordsOf(now))
    said.push(
      `shares callers out differently: ${quoted(wordsOf(old) || "no variants")} → ${quoted(wordsOf(now) || "no variants")}`,
    );
  for (const [at, variant] of now.entries()) {
    const name = variantName(variant, at);
    const earlier = old.find((one, number) => variantName(one, number) === name);
    if (earlier?.until !== undefined && variant.until === undefined)
      said.push(`lets the variant ${named([name])} go on whatever happens: its \`until\` is gone`);
    else if (earlier?.until !== undefined && !Bun.deepEquals(earlier.until, variant.until, true))
      said.push(`stops the variant ${named([name])} by other bounds (\`until\`)`);
  }
  return said;
}

/** @returns sentences without their subject, the persona */
export function mustSee(before: PersonaContent, after: PersonaContent): string[] {
  const [old, now] = [sidesOf(before), sidesOf(after)];
  const base = new Set<string>();
  const said = shares(before, after);
  for (const [name, content] of now) {
    const found = rules.flatMap((rule) => rule({ before: old.get(name) ?? old.get("")!, after: content }));
    // What holds of the persona as a whole is said once.
    for (const one of found) if (!base.has(one)) said.push(name === "" ? one : `${one} (variant ${named([name])})`);
    if (name === "") for (const one of found) base.add(one);
  }
  return said;
}

/** What a persona that is new may do. */
export function mustSeeOfNew(content: PersonaContent): string[] {
  const bare = { description: "", system: "", model: content.model } as PersonaContent;
  return [`is new, and asks ${named(modelsOf(content))}`, ...mustSee(bare, content)];
}
