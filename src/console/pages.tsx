/** The pages and what shows them. */
import type { FunctionComponent } from "preact";
import { type PageTitle, pageTitles } from "./page-titles.ts";
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

type PageEntry = PageTitle & { readonly component: FunctionComponent };

const Missing = () => (
  <Page title="There is no such page">
    <Empty title="The address may be of another version.">
      <a href="#/">To the overview</a>
    </Empty>
  </Page>
);

const components: Record<(typeof pageTitles)[number]["name"], FunctionComponent> = {
  "": OverviewPage,
  calls: CallsPage,
  playground: PlaygroundPage,
  personas: PersonasPage,
  keys: KeysPage,
  spend: SpendPage,
  providers: ProvidersPage,
  system: SystemPage,
};

export const pages: readonly PageEntry[] = pageTitles.map(({ name, title, icon }) => ({
  name,
  title,
  icon,
  component: components[name],
}));

export const missingPage: PageEntry = {
  ...{ name: "", title: "There is no such page", icon: "" },
  component: Missing,
};
