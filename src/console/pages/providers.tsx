/** Providers: which of their keys are in cooldown and why, how they do against the day before, and a call to test each. */
import { route } from "../router.ts";
import { ProviderList } from "./providers/list.tsx";
import { OneProvider } from "./providers/one.tsx";
import "./providers.css";

export function ProvidersPage() {
  const [name] = route.value.rest;
  return name === undefined || name === "" ? <ProviderList /> : <OneProvider key={name} name={name} />;
}
