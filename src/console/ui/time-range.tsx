/** Chooses the time of all pages, and the zone that times are said in. */
import { useState } from "preact/hooks";
import { dayAfter, lastDay } from "../period.ts";
import { askedTime, presets, range, rangeWords, setRange } from "../range.ts";
import { Button, Field, Select, TextInput } from "./form.tsx";
import { Menu } from "./menu.tsx";
import { setZone, type Zone, zone, zoneName } from "./numbers.ts";

const zones = [
  { value: "local", title: "this browser's" },
  { value: "utc", title: "UTC" },
];

function Dates() {
  const chosen = range();
  const day = (text: string | undefined) => (/^\d{4}-\d\d-\d\d/.exec(text ?? "") ?? [""])[0];
  const [from, setFrom] = useState(() => day(askedTime(chosen)["since"]));
  const [to, setTo] = useState(() => lastDay(chosen.until ?? new Date().toISOString()));
  const isTime = from !== "" && to !== "" && from <= to;
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (isTime) setRange({ since: from, until: dayAfter(to) });
      }}
    >
      <Field label="From">
        <TextInput type="date" value={from} onInput={setFrom} />
      </Field>
      <Field label="To, that day included">
        <TextInput type="date" value={to} onInput={setTo} />
      </Field>
      <Button type="submit" disabled={!isTime}>
        Show these days
      </Button>
    </form>
  );
}

export function TimeRange() {
  const chosen = range();
  const isChosen = (since: string) => chosen.since === since && chosen.until === undefined;
  const isShort = presets.some(({ since, short }) => short !== undefined && isChosen(since));
  const key = `${chosen.since} ${chosen.until ?? ""}`;
  return (
    <fieldset class="range">
      <legend class="unseen">Time, {zoneName()}</legend>
      {presets.map(
        ({ since, short }) =>
          short && (
            <Button key={since} pressed={isChosen(since)} onClick={() => setRange({ since })}>
              {short}
            </Button>
          ),
      )}
      <Menu
        key={key}
        title={
          <>
            {isShort ? "Dates" : rangeWords(chosen)} <span class="muted">{zoneName()} ▾</span>
          </>
        }
      >
        {presets.map(
          ({ since, title, short }) =>
            short === undefined && (
              <Button key={since} pressed={isChosen(since)} onClick={() => setRange({ since })}>
                {title}
              </Button>
            ),
        )}
        <Dates />
        <Field label="Times are said in">
          <Select value={zone.value} options={zones} onChange={(value) => setZone(value as Zone)} />
        </Field>
      </Menu>
    </fieldset>
  );
}
