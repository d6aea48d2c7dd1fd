/**
 * The places of a request at which the types of a published client let a text stand, as the compiler knows them: a test plants
 * something at each, so that what a new version of a client can say is looked at on the day of its update.
 */
import { fileURLToPath } from "node:url";
import { API, type Checker, type Type, TypeFlags } from "typescript/unstable/async";

/** One way to a text: the names on it, lists as `[]`. `body` says it, with the literals that its objects need to be told apart. */
export type Place = { readonly path: string; readonly owner: string; body(value: unknown): Record<string, unknown> };

type Member = { readonly name: string; readonly lists: number; readonly type: Type | undefined };
/** An object's members that are objects or texts, and its literals. */
type Shape = {
  readonly owner: string;
  readonly literals: Readonly<Record<string, string>>;
  readonly members: readonly Member[];
};

const file = fileURLToPath(new URL("requests.ts", import.meta.url));
const project = fileURLToPath(new URL("tsconfig.json", import.meta.url));

/** @param names of the types in `requests.ts` @param isWanted by the name of the member that holds the text */
export async function typedPlaces<Name extends string>(
  names: readonly Name[],
  isWanted: (member: string) => boolean,
): Promise<Record<Name, Place[]>> {
  const api = new API();
  try {
    const snapshot = await api.updateSnapshot({ openProject: project });
    const [opened] = await snapshot.getProjects();
    const source = await opened!.program.getSourceFile(file);
    const shapes = new Shapes(opened!.checker);
    const found: [Name, Place[]][] = [];
    for (const name of names) {
      const symbol = await opened!.checker.getSymbolAtPosition(file, source!.text.indexOf(`type ${name} `) + 5);
      found.push([name, await shapes.places(await opened!.checker.getDeclaredTypeOfSymbol(symbol!), isWanted)]);
    }
    return Object.fromEntries(found) as Record<Name, Place[]>;
  } finally {
    await api.close();
  }
}

class Shapes {
  readonly #checker: Checker;
  readonly #shapes = new Map<number, Shape>();

  constructor(checker: Checker) {
    this.#checker = checker;
  }

  async places(root: Type, isWanted: (member: string) => boolean): Promise<Place[]> {
    const places: Place[] = [];
    const walk = async (type: Type, way: readonly (readonly [Shape, Member])[], on: ReadonlySet<number>) => {
      const shape = await this.#shapeOf(type);
      for (const member of shape.members) {
        const next = [...way, [shape, member] as const];
        if (member.type === undefined) {
          if (isWanted(member.name)) places.push(placeOf(next));
        } else if (!on.has(member.type.id)) await walk(member.type, next, new Set([...on, member.type.id]));
      }
    };
    await walk(root, [], new Set([root.id]));
    return places;
  }

  async #shapeOf(type: Type): Promise<Shape> {
    const known = this.#shapes.get(type.id);
    if (known !== undefined) return known;
    const literals: Record<string, string> = {};
    const members: Member[] = [];
    for (const property of await this.#checker.getPropertiesOfType(type)) {
      const declared = await this.#checker.getTypeOfSymbol(property);
      if (declared === undefined) continue;
      const before = members.length;
      for (const [one, lists] of await this.#parts(declared)) {
        if (one.isStringLiteralType()) {
          if (lists === 0) literals[property.name] ??= String(one.value);
        } else if ((one.flags & TypeFlags.String) !== 0) members.push({ name: property.name, lists, type: undefined });
        else if (one.isObjectType() || one.isIntersectionType())
          members.push({ name: property.name, lists, type: one });
      }
      if (members.length > before && members.slice(before).some(({ type: of }) => of === undefined))
        delete literals[property.name];
    }
    const owner = (await type.getSymbol())?.name ?? "";
    const shape = { owner, literals, members };
    this.#shapes.set(type.id, shape);
    return shape;
  }

  /** A type's alternatives, each with the lists that it stands in. */
  async #parts(type: Type, lists = 0): Promise<(readonly [Type, number])[]> {
    if (type.isUnionType()) {
      const all = await Promise.all((await type.getTypes()).map((one) => this.#parts(one, lists)));
      return all.flat();
    }
    if (await this.#checker.isArrayType(type)) {
      const [element] = await this.#checker.getTypeArguments(type as never);
      return element === undefined ? [] : this.#parts(element, lists + 1);
    }
    // `string & {}` is how an open list of names is written.
    if (type.isIntersectionType()) {
      const types = await type.getTypes();
      const text = types.find(({ flags }) => (flags & TypeFlags.String) !== 0);
      if (text !== undefined) return [[text, lists]];
    }
    return [[type, lists]];
  }
}

function placeOf(way: readonly (readonly [Shape, Member])[]): Place {
  const wrap = (value: unknown, lists: number): unknown => (lists === 0 ? value : [wrap(value, lists - 1)]);
  return {
    path: way.map(([, { name, lists }]) => name + "[]".repeat(lists)).join("."),
    owner: way.at(-1)![0].owner,
    body: (value) =>
      way.reduceRight<unknown>(
        (inner, [{ literals }, { name, lists }]) => ({ ...literals, [name]: wrap(inner, lists) }),
        value,
      ) as Record<string, unknown>,
  };
}
