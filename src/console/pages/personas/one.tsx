/** One persona: what is live, its file, its versions, its numbers, and who calls it by what name. */
import { get } from "../../api.ts";
import { useResource } from "../../data.ts";
import { href } from "../../router.ts";
import { Curl } from "../../ui/copy.tsx";
import { Badge, Page, Tabs } from "../../ui/layout.tsx";
import { Empty, Loaded } from "../../ui/states.tsx";
import { Callers } from "./callers.tsx";
import { Tests } from "./list.tsx";
import { Live } from "./live.tsx";
import { Numbers } from "./numbers.tsx";
import { SourceTab } from "./source.tsx";
import { PersonaTests } from "./tests.tsx";
import { type PersonaDetails, pathOf } from "./types.ts";
import { Versions } from "./versions.tsx";

const tabs = [
  ["live", "What is live"],
  ["source", "Source"],
  ["versions", "Versions"],
  ["tests", "Tests"],
  ["numbers", "Numbers and variants"],
  ["callers", "Callers and pins"],
] as const;

export function OnePersona({ id, tab }: { readonly id: string; readonly tab: string }) {
  const persona = useResource((signal) => get<PersonaDetails>(pathOf(id), {}, { signal }), [id]);
  const { data } = persona;
  // A file whose first text has faults is served by nobody, and can be mended all the same.
  const isUnserved = persona.error?.status === 404;
  return (
    <Page
      title={id}
      isOfTime={tab === "numbers" || tab === "callers"}
      note={
        data && (
          <>
            {data.description} <code>@{data.version}</code>{" "}
            {data.stopped_variants.length > 0 && <Badge tone="bad">stopped: {data.stopped_variants.join(", ")}</Badge>}{" "}
            {data.last_test_run !== null && <Tests {...data} />}
          </>
        )
      }
      actions={
        <>
          <a href={href("playground", [], { model: id })}>Try it</a>
          <a href={href("calls", [], { persona: id })}>Calls</a>
          <a href={href("spend", [], { persona: id })}>Spend</a>
          <Curl path={pathOf(id)} />
        </>
      }
    >
      <Tabs
        label={`Views of ${id}`}
        current={tab}
        tabs={tabs.map(([name, title]) => ({
          id: name,
          title,
          href: href("personas", name === "live" ? [id] : [id, name]),
        }))}
      />
      {tab === "source" ? (
        <SourceTab id={id} onSaved={persona.reload} />
      ) : tab === "versions" ? (
        <Versions id={id} />
      ) : isUnserved ? (
        <Empty title={`${id} is not served.`}>
          <p>
            See <a href={href("personas", [id, "source"])}>its file</a>,{" "}
            <a href={href("personas", [id, "versions"])}>its versions</a>, or{" "}
            <a href={href("personas")}>all personas</a>.
          </p>
        </Empty>
      ) : (
        <Loaded resource={persona}>
          {(details) =>
            tab === "tests" ? (
              <PersonaTests persona={details} onRun={persona.reload} />
            ) : tab === "numbers" ? (
              <Numbers persona={details} onChange={persona.reload} />
            ) : tab === "callers" ? (
              <Callers persona={details} />
            ) : (
              <Live persona={details} />
            )
          }
        </Loaded>
      )}
    </Page>
  );
}
