/** What callers may name a model by, and whether their key allows it. */
import { type Caller, mayUseModel } from "../auth/keys.ts";
import type { Services } from "./services.ts";

/** @returns `<namespace>/<name>` of an alias; any other name as it is */
export function standsFor({ live }: Pick<Services, "live">, name: string): string {
  return live.aliases.find(name) ?? name;
}

/** A key is for a model by either of its names: who may use what an alias stands for may use the alias, and the other way round. */
export function mayUseNamed(caller: Caller, asked: string, meant: string): boolean {
  return mayUseModel(caller, asked) || (meant !== asked && mayUseModel(caller, meant));
}
