/** A folder that is rewritten whole while the process serves: it is taken in slices, with turns of the event loop between them. */
import { expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { slicesBegun } from "../../src/lib/time/cooperative-scheduling.ts";
import { contentOf } from "../../src/personas/persona.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";

const count = 120;

test("what is parsed and what is kept of personas that were all rewritten is parted by turns of the event loop", async () => {
  using folder = new TempFolder();
  for (const name of ["acme", "acme/_parts"]) mkdirSync(folder.file(name));
  const sentence = "You answer questions about things of many kinds in few words. ";
  writeFileSync(folder.file("acme/_parts/long.md"), sentence.repeat(300));
  const write = (generation: number, rest = "") => {
    for (let at = 0; at < count; at += 1) {
      const system = `Generation ${generation}. ${sentence.repeat(50)}${rest}`;
      writeFileSync(folder.file(`acme/p${at}.yaml`), `description: Of many.\nmodel: openai/a\nsystem: "${system}"\n`);
    }
  };
  write(0);
  const providers = { openai: { baseUrl: "http://127.0.0.1:1" } };
  await using troupe = await Troupe.start({ providers, personas: folder.path });
  const { services } = troupe.server;
  await services.loading;
  await services.personaVersions.record();
  /** @returns slices of the reading, and of what is kept of it */
  const slices = async () => {
    const before = slicesBegun();
    await services.rereadPersonas();
    const read = slicesBegun();
    await services.personaVersions.record();
    return [read - before, slicesBegun() - read] as const;
  };

  write(1);
  const [read, kept] = await slices();
  const served = () => services.personas.find("acme/p7")!;
  expect(contentOf(served())).toContain("Generation 1.");
  // A pause after each 16 KiB, of files of some 3,200 bytes each; what is kept begins before the reading has ended.
  expect(read).toBeGreaterThanOrEqual(Math.floor(count / 6) - 1);
  expect(read + kept).toBeGreaterThanOrEqual(Math.floor(count / 6) - 1 + count);
  expect(
    await services.store.personaVersions.known(services.personas.list().map(({ id, version }) => `${id}@${version}`)),
  ).toHaveLength(count);

  // What is included is part of the work: here each file is a slice.
  write(2, "{{> _parts/long}}");
  expect((await slices())[0]).toBeGreaterThanOrEqual(count - 1);

  // A file that is the same is not parsed again.
  const taken = served();
  await services.rereadPersonas();
  expect(served()).toBe(taken);
});
