import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { isSeal, seal, sealAsBytes, sealFamilies, unseal } from "../../../src/protocols/state/seal.ts";

const families = fc.constantFrom(...sealFamilies);
const contents = fc.jsonValue({ maxDepth: 4 });

test("an envelope in base64 is one too, in either alphabet", () => {
  for (const text of ["a", "ab", "abc", "ÿþ~~??", "é☃😀"]) {
    const bytes = sealAsBytes("openai", { text });
    expect(bytes).toMatch(/^[A-Za-z0-9+/]+=*$/);
    const url = bytes.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
    for (const one of [bytes, url]) {
      expect(isSeal(one)).toBe(true);
      expect(unseal(one)).toEqual({ family: "openai", content: { text } });
    }
  }
  expect(isSeal("dHJwMSBpcyBub3Qgb3Vycw==")).toBe(false);
});

describe("an envelope", () => {
  test("gives back its family and content, whatever they are", () => {
    fc.assert(
      fc.property(families, contents, (family, content) => {
        const sealed = seal(family, content);
        expect(sealed).toMatch(/^trp1\.[\w.-]+$/);
        expect(isSeal(sealed)).toBe(true);
        // As JSON, which has no -0.
        expect(unseal(sealed)).toEqual({ family, content: JSON.parse(JSON.stringify(content)) });
      }),
    );
  });

  test("that was cut or altered never throws, and never names a family that is none", () => {
    fc.assert(
      fc.property(families, contents, fc.nat(), fc.string(), (family, content, at, other) => {
        const sealed = seal(family, content);
        const cut = sealed.slice(0, at % sealed.length);
        for (const damaged of [cut, cut + other, other + sealed, `trp1.${other}`]) {
          const opened = unseal(damaged);
          if (opened !== undefined) expect(sealFamilies).toContain(opened.family);
        }
      }),
    );
  });

  test.each([
    ["a native seal", "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYds"],
    ["an unknown family", `trp1.mistral.${Buffer.from("{}").toString("base64url")}`],
    ["a later version", `trp2.google.${Buffer.from("{}").toString("base64url")}`],
    ["no JSON", `trp1.google.${Buffer.from("{").toString("base64url")}`],
    ["another alphabet", "trp1.google.e+/="],
    ["nothing in it", "trp1.google."],
    ["an empty text", ""],
  ])("%s is not opened", (_what, text) => {
    expect(unseal(text)).toBeUndefined();
  });

  test("is told by its prefix, also where it can't be opened", () => {
    expect(isSeal("trp1.google.")).toBe(true);
    expect(isSeal("EqQBCgIYAhIM")).toBe(false);
  });

  test("that nests deep, or holds more values than thinking state does, is not opened", () => {
    const sealed = (json: string) => `trp1.openai.${Buffer.from(json).toString("base64url")}`;
    expect(unseal(sealed(`${"[".repeat(50_000)}${"]".repeat(50_000)}`))).toBeUndefined();
    expect(unseal(sealed(`[${"0,".repeat(5000)}0]`))).toBeUndefined();
    const long = "x".repeat(1_000_000);
    expect(unseal(seal("openai", { long }))?.content).toEqual({ long });
  });
});
