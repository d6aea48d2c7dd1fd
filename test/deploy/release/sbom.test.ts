import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { packagesInside, sbom } from "../../../deploy/release/sbom.ts";
import manifest from "../../../package.json" with { type: "json" };

const folder = resolve(import.meta.dir, "../../..");

describe("the bill of materials", () => {
  const input = { folder, version: "1.2.3", commit: "abc", bunVersion: "1.4.5", seconds: 1_763_719_200 };
  const document = JSON.parse(sbom(input));

  test("names every dependency of package.json with its exact version, and the runtime", () => {
    const purls = document.components.map(({ purl }: { purl: string }) => purl);
    for (const [name, version] of Object.entries(manifest.dependencies))
      expect(purls).toContain(`pkg:npm/${name.replace("@", "%40")}@${version}`);
    expect(purls).toContain("pkg:npm/bun@1.4.5");
    expect(new Set(purls).size).toBe(purls.length);
  });

  test("names nothing that only development needs", () => {
    const names = document.components.map(({ name }: { name: string }) => name);
    for (const name of Object.keys(manifest.devDependencies)) expect(names).not.toContain(name);
  });

  test("each package carries a licence and a SHA-512 of 64 bytes", () => {
    for (const { name, licenses, hashes } of document.components) {
      expect(licenses[0].expression, name).toMatch(/MIT|Apache-2\.0|ISC|BSD|CC0/);
      if (name !== "bun") expect(hashes[0].content, name).toMatch(/^[0-9a-f]{128}$/);
    }
  });

  test("is the same text for the same commit", () => {
    expect(sbom(input)).toBe(sbom(input));
    expect(sbom({ ...input, commit: "abd" })).not.toBe(sbom(input));
  });
});

describe("packages in a lock file", () => {
  const lock = (packages: Record<string, unknown>) =>
    JSON.stringify({ workspaces: { "": { dependencies: { a: "1" } } }, packages });

  test("a package's own version of another comes before the shared one", () => {
    const found = packagesInside(
      lock({
        a: ["a@1.0.0", "", { dependencies: { b: "2" } }, "sha512-aaaa"],
        b: ["b@1.0.0", "", {}, "sha512-bbbb"],
        "a/b": ["b@2.0.0", "", {}, "sha512-cccc"],
      }),
    );
    expect(found.map(({ name, version }) => `${name}@${version}`)).toEqual(["a@1.0.0", "b@2.0.0"]);
  });

  test("one version that stands in several places is one package", () => {
    const found = packagesInside(
      lock({
        a: ["a@1.0.0", "", { dependencies: { b: "1", c: "1" } }, "sha512-aaaa"],
        b: ["b@2.0.0", "", {}, "sha512-bbbb"],
        c: ["c@1.0.0", "", { dependencies: { b: "1" } }, "sha512-cccc"],
        "a/b": ["b@1.0.0", "", {}, "sha512-dddd"],
        "c/b": ["b@1.0.0", "", {}, "sha512-dddd"],
      }),
    );
    expect(found.map(({ name, version }) => `${name}@${version}`)).toEqual(["a@1.0.0", "b@1.0.0", "c@1.0.0"]);
  });

  test("optional peers are left out, needed ones are not", () => {
    const peers = { dependencies: {}, peerDependencies: { b: "1", c: "1" }, optionalPeers: ["c"] };
    const found = packagesInside(
      lock({ a: ["a@1.0.0", "", peers, "x"], b: ["b@1.0.0", "", {}, "x"], c: ["c@1.0.0", "", {}, "x"] }),
    );
    expect(found.map(({ name }) => name)).toEqual(["a", "b"]);
  });

  test("a lock file that lacks a package is an error", () => {
    const broken = lock({ a: ["a@1.0.0", "", { dependencies: { gone: "1" } }, "x"] });
    expect(() => packagesInside(broken)).toThrow("lacks gone, which a needs");
    expect(() => packagesInside(readFileSync(`${folder}/LICENSE`, "utf8"))).toThrow("not readable");
  });
});
