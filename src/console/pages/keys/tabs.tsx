import { href } from "../../router.ts";
import { Tabs } from "../../ui/layout.tsx";

export const KeyTabs = ({ current }: { readonly current: "keys" | "budgets" }) => (
  <Tabs
    label="Keys and budgets"
    current={current}
    tabs={[
      { id: "keys", title: "Keys", href: href("keys") },
      { id: "budgets", title: "Budgets", href: href("keys", ["budgets"]) },
    ]}
  />
);
