/** Every family that is compiled in: one line each, and the name is the namespace left of a model's slash. */
import { builtin } from "./builtin.ts";
import type { Provider } from "./provider.ts";

export const providers: readonly Provider[] = [builtin];

const byName = new Map(providers.map((provider) => [provider.name, provider]));

export function providerNamed(name: string): Provider | undefined {
  return byName.get(name);
}
