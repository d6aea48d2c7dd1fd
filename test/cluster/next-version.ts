/** Loaded before the program, makes it the version after: its schema has one step more. `SERVES_FROM` makes that a contraction. */
import { type Step, steps } from "../../src/store/postgres/migrations.ts";

const servesFrom = process.env["SERVES_FROM"];

(steps as Step[]).push({
  sql: `
alter table troupe.kept_calls add column colour text;
alter table troupe.keys add column colour text not null default 'grey';
create table troupe.colours (colour text primary key);
create index kept_calls_coloured on troupe.kept_calls (colour) where colour is not null;`,
  ...(servesFrom !== undefined && { servesFrom: Number(servesFrom) }),
});
