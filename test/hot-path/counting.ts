/**
 * Counts what runs and what is made in `src`, for `bun --preload test/hot-path/counting.ts <program>`: each function gets a first step that
 * counts it, and each literal, closure and `new` within a function another. What Bun makes of its own accord is not seen.
 */
import { join } from "node:path";
import type { Node, SourceFile } from "typescript/unstable/ast";
import * as is from "typescript/unstable/ast/is";
import { API } from "typescript/unstable/async";

/** A function, or an expression that makes something: where it stands, and how often it ran. */
export type Counted = {
  readonly file: string;
  readonly line: number;
  readonly isFunction: boolean;
  /** True for a function that makes a promise, a generator and two scopes each time that it runs. */
  readonly isAsync: boolean;
  times: number;
};

declare global {
  /** Counts one run of a place. */
  var countPlace: (at: number) => void;
  /** What ran since the last time this was asked. */
  var takeCounts: () => Counted[];
  /** Ends the parser, which keeps the process alive. */
  var closeParser: () => Promise<void>;
}

const places: Counted[] = [];
globalThis.countPlace = (at) => {
  places[at]!.times += 1;
};
globalThis.takeCounts = () => {
  const ran = places.filter(({ times }) => times > 0).map((place) => ({ ...place }));
  for (const place of places) place.times = 0;
  return ran;
};

const root = join(import.meta.dir, "../..");
const parser = new API({ cwd: root });
const snapshot = await parser.updateSnapshot({ openProjects: [join(import.meta.dir, "tsconfig.json")] });
const { program } = snapshot.getProjects()[0]!;
globalThis.closeParser = () => parser.close();

Bun.plugin({
  name: "counting",
  setup(build) {
    build.onLoad({ filter: new RegExp(`^${RegExp.escape(join(root, "src"))}/.*\\.ts$`) }, async ({ path }) => {
      const file = await program.getSourceFile(path);
      if (file === undefined) throw new Error(`${path} is not part of the project`);
      const counter = (node: Node, isFunction: boolean) => {
        const line = file.text.slice(0, node.getStart(file)).split("\n").length;
        const isAsync =
          isFunction && /^(?:(?:static|private|public|readonly|export|default)\s+)*async\b/.test(node.getText(file));
        places.push({ file: path.slice(root.length + 1), line, isFunction, isAsync, times: 0 });
        return `countPlace(${places.length - 1})`;
      };
      return { contents: childrenOf(file, { file, counter, isCalled: false }, 0, file.text.length), loader: "ts" };
    });
  },
});

type Writing = {
  readonly file: SourceFile;
  readonly counter: (node: Node, isFunction: boolean) => string;
  /** Whether this runs with each call of a function or with each new object, and not once at the start. */
  readonly isCalled: boolean;
};

/** A node's text with its counters. */
function textOf(node: Node, writing: Writing): string {
  const { file, counter, isCalled } = writing;
  const [start, end] = [node.getStart(file), node.getEnd()];
  if (is.isTypeNode(node)) return file.text.slice(start, end);
  const isRun = isCalled || is.isFunctionLikeDeclaration(node) || is.isPropertyDeclaration(node);
  const text = childrenOf(node, { ...writing, isCalled: isRun }, start, end);
  return isCalled && isMaking(node) ? `(${counter(node, false)}, ${text})` : text;
}

function childrenOf(node: Node, writing: Writing, start: number, end: number): string {
  const { file, counter } = writing;
  const body = is.isFunctionLikeDeclaration(node) ? (node as { body?: Node }).body : undefined;
  let text = "";
  let at = start;
  node.forEachChild((child) => {
    const from = child.getStart(file);
    text += file.text.slice(at, from);
    at = child.getEnd();
    const inner = isPattern(child, node) ? file.text.slice(from, at) : textOf(child, writing);
    if (child !== body) text += inner;
    else
      text += is.isBlock(child) ? `{ ${counter(node, true)}; ${inner.slice(1)}` : `(${counter(node, true)}, ${inner})`;
    return undefined;
  });
  return text + file.text.slice(at, end);
}

const isMaking = (node: Node): boolean =>
  is.isObjectLiteralExpression(node) ||
  is.isArrayLiteralExpression(node) ||
  is.isNewExpression(node) ||
  is.isArrowFunction(node) ||
  is.isFunctionExpression(node);

/** Whether it is what is assigned to: `[a, b] = …`, `({ a } = …)`. */
const isPattern = (node: Node, parent: Node): boolean =>
  (is.isArrayLiteralExpression(node) || is.isObjectLiteralExpression(node)) &&
  is.isBinaryExpression(parent) &&
  parent.left === node;
