/** A server with the console, and a browser that is signed in there. */
import { ChromiumPage, type Look } from "../helpers/chromium-page.ts";
import { Troupe, type TroupeOptions } from "../helpers/troupe.ts";

const surfaces = ["orchestrator", "gateway", "admin"] as const;

/** Starts a server whose listener has all surfaces, and whose personas are read. */
export async function startWithConsole({ config, ...options }: TroupeOptions = {}): Promise<Troupe> {
  const listen = [{ address: { kind: "tcp", host: "127.0.0.1", port: 0 } as const, surfaces }];
  const troupe = await Troupe.start({ ...options, config: { listen, ...config } });
  await troupe.server.services.loading;
  return troupe;
}

/** Types a key where the sign-in asks for one, and waits until it is gone. */
export async function signIn(page: ChromiumPage, key: string): Promise<void> {
  await page.until(`document.querySelector("dialog[open]") && document.activeElement.type === "password"`);
  await page.type(key);
  await page.press("Enter");
  await page.until(`!document.querySelector("dialog[open]") && document.querySelector(".account")`);
}

type Opening = {
  /** Runs in each page before its own script. */
  readonly before?: string;
  readonly look?: Look;
  /** What is true once the page is there. */
  readonly ready?: string;
};

/** @param address behind the number sign, such as `/keys` @returns the page, signed in with a key of the admin API */
export async function openConsole(
  troupe: Troupe,
  address = "/",
  { before, look, ready }: Opening = {},
): Promise<{ readonly page: ChromiumPage; readonly key: string }> {
  const key = await troupe.createKey({ name: "ops", tier: "pro", perMinute: 10_000, surfaces: ["admin"] });
  const page = await ChromiumPage.open();
  if (before !== undefined) await page.beforeEachPage(before);
  if (look !== undefined) await page.look(look);
  await page.go(`${troupe.url}/console#${address}`);
  await signIn(page, key);
  if (ready !== undefined) await page.until(ready);
  page.errors.splice(0);
  return { page, key };
}
