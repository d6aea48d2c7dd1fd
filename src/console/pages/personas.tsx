/** Personas: what is served, what changed, and how each version does. */
import "./personas.css";
import { route } from "../router.ts";
import { PersonaList } from "./personas/list.tsx";
import { OnePersona } from "./personas/one.tsx";

export function PersonasPage() {
  // Links have the id as one segment; people write its slash.
  const [namespace, name, tab] = route.value.rest.flatMap((part) => part.split("/"));
  if (namespace === undefined || name === undefined) return <PersonaList />;
  const id = `${namespace}/${name}`;
  return <OnePersona key={id} id={id} tab={tab ?? "live"} />;
}
