/** OpenSSH's own program judges signatures of releases. */
import { describe, expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import { writeFileSync } from "node:fs";
import { $ } from "bun";
import { sshPublicKey, sshSignature } from "../../../deploy/release/signature.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";

const { privateKey: key } = generateKeyPairSync("ed25519");
const { privateKey: other } = generateKeyPairSync("ed25519");
const content = Buffer.from("0123  troupe.tar.gz\n");

describe.skipIf(Bun.which("ssh-keygen") === null)("ssh-keygen -Y verify", () => {
  async function judged(signature: string, shown: Uint8Array, signer = key) {
    using folder = new TempFolder();
    writeFileSync(folder.file("sig"), signature);
    writeFileSync(folder.file("signers"), `troupe ${sshPublicKey(signer)}\n`);
    const { exitCode } =
      await $`ssh-keygen -Y verify -f ${folder.file("signers")} -I troupe -n file -s ${folder.file("sig")} < ${Buffer.from(shown)}`
        .nothrow()
        .quiet();
    return exitCode === 0;
  }

  test("takes what was signed, of any length", async () => {
    expect(await judged(sshSignature(key, content), content)).toBe(true);
    expect(await judged(sshSignature(key, new Uint8Array()), new Uint8Array())).toBe(true);
    const long = new Uint8Array(100_000).fill(7);
    expect(await judged(sshSignature(key, long), long)).toBe(true);
  });

  test("refuses another content, and another key", async () => {
    expect(await judged(sshSignature(key, content), Buffer.from("0124  troupe.tar.gz\n"))).toBe(false);
    expect(await judged(sshSignature(other, content), content)).toBe(false);
  });
});

test("the same content and key give the same signature", () => {
  expect(sshSignature(key, content)).toBe(sshSignature(key, content));
});
