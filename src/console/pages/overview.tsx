/** The first page: whether all is well, what changed, who pays, and what ends soon. */
import { useResource } from "../data.ts";
import { Time } from "../ui/format.tsx";
import { Page } from "../ui/layout.tsx";
import { Loaded } from "../ui/states.tsx";
import { Changes } from "./overview/changes.tsx";
import { Ending } from "./overview/ending.tsx";
import { FirstStart } from "./overview/first-start.tsx";
import { Numbers } from "./overview/numbers.tsx";
import { Payers } from "./overview/payers.tsx";
import { WellBeing } from "./overview/well-being.tsx";
import { dayOf, getSums } from "./spend/sums.ts";
import "./overview.css";

export function OverviewPage() {
  const ever = useResource((signal) => getSums({ by: "day", since: dayOf(Date.now()) }, signal), [], {
    everyMs: 15_000,
  });
  return (
    <Page
      title="Overview"
      note={
        ever.data?.ledger.newest_call_at && (
          <>
            newest counted call <Time at={ever.data.ledger.newest_call_at} />
          </>
        )
      }
      isOfTime
    >
      <WellBeing />
      <Loaded resource={ever} shape="numbers">
        {({ ledger }) =>
          ledger.newest_call_at === null ? (
            <FirstStart reload={ever.reload} />
          ) : (
            <>
              <Numbers>
                <Payers />
              </Numbers>
              <div class="columns">
                <Changes />
                <Ending />
              </div>
            </>
          )
        }
      </Loaded>
    </Page>
  );
}
