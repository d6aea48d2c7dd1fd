/** The pages, in the order of the navigation. */
import type { FunctionComponent } from "preact";
import { CallsPage } from "./pages/calls.tsx";
import { KeysPage } from "./pages/keys.tsx";
import { OverviewPage } from "./pages/overview.tsx";
import { PersonasPage } from "./pages/personas.tsx";
import { PlaygroundPage } from "./pages/playground.tsx";
import { ProvidersPage } from "./pages/providers.tsx";
import { SpendPage } from "./pages/spend.tsx";
import { SystemPage } from "./pages/system.tsx";
import { Page } from "./ui/layout.tsx";
import { Empty } from "./ui/states.tsx";

export type PageEntry = {
  /** Its name in the address; empty: the first. */
  readonly name: string;
  readonly title: string;
  readonly component: FunctionComponent;
};

const Missing = () => (
  <Page title="There is no such page">
    <Empty title="The address may be of another version.">
      <a href="#/">To the overview</a>
    </Empty>
  </Page>
);

export const pages: readonly PageEntry[] = [
  { name: "", title: "Overview", component: OverviewPage },
  { name: "calls", title: "Calls", component: CallsPage },
  { name: "playground", title: "Playground", component: PlaygroundPage },
  { name: "personas", title: "Personas", component: PersonasPage },
  { name: "keys", title: "Keys and budgets", component: KeysPage },
  { name: "spend", title: "Spend", component: SpendPage },
  { name: "providers", title: "Providers", component: ProvidersPage },
  { name: "system", title: "System", component: SystemPage },
];

export const missingPage: PageEntry = { name: "", title: "There is no such page", component: Missing };
