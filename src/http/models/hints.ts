/** Suggests what a caller most likely meant who took one surface, path or name for another; only what the caller may see. */
import { mayUseModel, mayUseProvider } from "../../auth/keys.ts";
import { callerOf } from "../../call/admit/admit.ts";
import { mayUseNamed, standsFor } from "../../call/admit/named.ts";
import type { RequestContext } from "../../call/context.ts";
import type { Services } from "../../call/services.ts";
import type { ServedSurface, SurfaceName } from "../../config/config.ts";
import { suggest } from "../../lib/text/suggest.ts";
import { formatModelId, parseModelId } from "../../protocols/model-id.ts";
import { basePath, isGuess } from "../routes.ts";

/** @param asked the model's name, which this surface does not know @returns "" where nothing better is known */
export function modelHint(
  services: Services,
  context: RequestContext,
  asked: string,
  surfaces: readonly ServedSurface[],
): string {
  const caller = callerOf(services, context);
  if (caller === undefined) return "";
  const meant = standsFor(services, asked);
  const { accounts } = services.live;
  const personas = services.personas.visibleTo(caller.tier);
  const servedBy = (surface: SurfaceName, what: string) =>
    caller.surfaces.has(surface) && mayUseNamed(caller, asked, meant)
      ? ` It is ${what}: the ${surface} serves it${surfaces.includes(surface) ? `, at ${basePath(surface, surfaces)}/v1` : ""}.`
      : "";
  if (context.area === "gateway" && personas.find(meant) !== undefined) return servedBy("orchestrator", "a persona");
  const provider = parseModelId(meant)?.namespace;
  if (context.area === "orchestrator" && provider !== undefined && accounts.find(provider) !== undefined)
    return servedBy("gateway", "a provider's model");
  const known =
    context.area === "gateway"
      ? accounts
          .list()
          .flatMap(({ account: { name, models } }) => models.map((model) => ({ namespace: name, name: model })))
      : personas.list().map(({ id }) => parseModelId(id)!);
  const usable = known.map((id) => ({ ...id, id: formatModelId(id) })).filter(({ id }) => mayUseModel(caller, id));
  const bare = usable.filter(({ name }) => name === asked);
  if (bare.length === 1) return didYouMean(bare[0]!.id);
  if (context.area === "orchestrator")
    return didYouMean(
      suggest(
        asked,
        usable.map(({ id }) => id),
      ),
    );
  const providers = accounts.list().flatMap(({ account: { name } }) => (mayUseProvider(caller, name) ? [name] : []));
  const near = provider === undefined ? undefined : suggest(provider, providers);
  return didYouMean(near === undefined ? undefined : near + meant.slice(provider!.length));
}

const didYouMean = (guess: string | undefined) => (guess === undefined ? "" : ` Did you mean '${guess}'?`);

type KnownPath = { readonly method: string; readonly path: string };

/** Parts of base addresses, which are left out, doubled and mixed up. */
const baseParts = new Set(["", "v1", "v1beta", "gateway", "admin"]);
const bases = ["/v1", "/gateway/v1", "", "/gateway", "/v1beta", "/gateway/v1beta", "/admin/v1"];
const longestPath = 512;

/** Finds the path that was meant by one that does not exist. */
export class PathHints {
  readonly #list: () => readonly KnownPath[];
  #known: readonly (KnownPath & { readonly pattern: RegExp })[] | undefined;

  /** @param list returns the listener's routes, each path with `:name` and `*` */
  constructor(list: () => readonly KnownPath[]) {
    this.#list = list;
  }

  find(method: string, path: string): string | undefined {
    if (path.length > longestPath) return undefined;
    const parts = path.split("/");
    const rest = parts.filter((part) => !baseParts.has(part)).join("/");
    if (rest === "") return undefined;
    const isGateway = parts.includes("gateway");
    // The surface that the path names decides between two that fit.
    const ordered = bases.toSorted(
      (a, b) => Number(b.includes("gateway") === isGateway) - Number(a.includes("gateway") === isGateway),
    );
    return (
      ordered.map((base) => `${base}/${rest}`).find((other) => other !== path && this.#has(method, other)) ??
      suggest(path, this.#static(method, isGateway))
    );
  }

  #has(method: string, path: string): boolean {
    return this.#all.some((one) => one.method === method && one.pattern.test(path));
  }

  /** Made for the first that asks. */
  get #all() {
    this.#known ??= this.#list().flatMap(({ method, path }) =>
      path === "/*" || isGuess(path) ? [] : { method, path, pattern: patternOf(path) },
    );
    return this.#known;
  }

  #static(method: string, isGateway: boolean): string[] {
    const isPlain = ({ path }: Pick<KnownPath, "path">) =>
      !/[:*]/.test(path) && path.startsWith("/gateway/") === isGateway;
    return this.#all.flatMap((one) => (one.method === method && isPlain(one) ? one.path : []));
  }
}

function patternOf(path: string): RegExp {
  const text = path
    .replaceAll(/[.+?^${}()|[\]\\]/g, "\\$&")
    .replaceAll(/:\w+/g, "[^/]+")
    .replace("*", ".+");
  return new RegExp(`^${text}$`);
}
