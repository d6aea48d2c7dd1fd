/** `docs/admin.md` tells of every route of the admin API. */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { adminRoutes } from "../../src/admin/routes.ts";
import { openApiDocument } from "../../src/http/app.ts";

/** Names of parameters are each page's own. */
const nameless = (text: string) => text.replaceAll(/\{[\w ]+\}/g, "{}");

test("each route of the admin API has its place in the page", async () => {
  const { paths } = (await openApiDocument(["admin"], adminRoutes)) as { paths: Record<string, object> };
  const text = readFileSync("docs/admin.md", "utf8");
  const page = nameless(text).replaceAll(/`GET`, `PUT (\S+)`/g, "`GET $1`, `PUT $1`");
  const routes = Object.entries(paths)
    .filter(([path]) => path.startsWith("/admin/"))
    .flatMap(([path, methods]) => Object.keys(methods).map((method) => `${method.toUpperCase()} ${nameless(path)}`));
  expect(routes.length).toBeGreaterThan(50);
  expect(routes.filter((route) => !page.includes(`\`${route}`))).toEqual([]);
});
