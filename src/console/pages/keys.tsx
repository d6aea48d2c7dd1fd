/** Keys and budgets. */
import "./keys.css";
import { route } from "../router.ts";
import { BudgetsPage } from "./keys/budgets.tsx";
import { KeyList } from "./keys/list.tsx";
import { OneKey } from "./keys/one.tsx";

export function KeysPage() {
  const [id] = route.value.rest;
  if (id === undefined) return <KeyList />;
  return id === "budgets" ? <BudgetsPage /> : <OneKey key={id} id={id} />;
}
