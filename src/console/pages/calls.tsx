/** Calls, and one of them. */
import { route } from "../router.ts";
import { CallPage } from "./call.tsx";
import { CallList } from "./calls/list.tsx";

export function CallsPage() {
  const [id] = route.value.rest;
  return id === undefined || id === "" ? <CallList /> : <CallPage key={id} id={id} />;
}
