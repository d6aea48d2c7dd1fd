/** What operators did. */
import type { Database } from "bun:sqlite";
import type { AuditPage, AuditRepository, AuditRow } from "../store.ts";
import type { Synchronous } from "./asynchronous.ts";

export function auditRepository(database: Database): Synchronous<AuditRepository> {
  const insert = database.prepare<unknown, AuditRow>(
    "insert into audit values ($id, $at, $actor, $act, $subject, $before, $after)",
  );
  const list = database.prepare<AuditRow, AuditPage>(
    `select * from audit where ($before is null or id < $before) and ($actor is null or actor = $actor)
     and ($act is null or act = $act) and ($subject is null or subject = $subject) order by id desc limit $limit`,
  );
  return {
    insert: (row) => void insert.run(row),
    list: (page) => list.all(page),
  };
}
