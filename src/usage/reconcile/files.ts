/** Reports in files: what a vendor's console exports, or an answer of its API that was kept. */
import { type CsvError, parse } from "csv-parse/sync";
import { truncate } from "../../lib/text/truncate.ts";
import { anthropic } from "./anthropic.ts";
import { parsePage } from "./fetch.ts";
import { openai } from "./openai.ts";
import { ReportError, type Reported } from "./reported.ts";
import type { Cells, Vendor } from "./vendor.ts";

export const vendors: readonly Vendor[] = [openai, anthropic] as readonly Vendor[];

export type FileReport = { readonly vendor: Vendor; readonly report: Reported };

/** @param name for messages @param projects see `Question` @throws ReportError that names the file and the line or field */
export function readReport(name: string, text: string, projects: readonly string[]): FileReport {
  return /^\s*\{/.test(text) ? answerReport(name, text, projects) : tableReport(name, text, projects);
}

function answerReport(name: string, text: string, projects: readonly string[]): FileReport {
  const vendor = vendors.find(({ page }) => {
    const bucket = Object.keys(
      (page["properties"] as { data: { items: { properties: object } } }).data.items.properties,
    )[0]!;
    return text.includes(`"${bucket}"`);
  });
  if (vendor === undefined) throw new ReportError(`${name} is no answer of a report that is known`);
  const answer = parsePage(vendor, text, name) as { readonly has_more: boolean };
  if (answer.has_more) throw new ReportError(`${name} is not the whole report: has_more is true`);
  const kind = /"(?:organization\.costs\.result|amount)"/.test(text) ? "costs" : "usage";
  const report: Reported = { kind, lines: [], days: new Set() };
  vendor.lines(answer, name, report, projects);
  return { vendor, report };
}

function tableReport(name: string, text: string, projects: readonly string[]): FileReport {
  const rows = rowsOf(name, text);
  const columns = Object.keys(rows[0]?.cells ?? {});
  for (const vendor of vendors) {
    for (const { kind, column, lines } of vendor.files) {
      if (!columns.includes(column)) continue;
      const report: Reported = { kind, lines: [] };
      for (const { cells, line } of rows) {
        const project = cells["project_id"] ?? cells["workspace"];
        if (projects.length > 0 && project !== undefined && !projects.includes(project)) continue;
        report.lines.push(...lines(cells, `${name}:${line}`));
      }
      return { vendor, report };
    }
  }
  const known = vendors.flatMap(({ name: vendor, files }) => files.map(({ column }) => `${column} (${vendor})`));
  throw new ReportError(
    `${name} is no report that is known: it has no column ${known.join(", ")}, but ${truncate(columns.join(", "))}`,
  );
}

function rowsOf(name: string, text: string): { readonly cells: Cells; readonly line: number }[] {
  const isTabbed = text.slice(0, text.search(/\n|$/)).includes("\t");
  try {
    const found = parse(text, {
      bom: true,
      columns: true,
      delimiter: isTabbed ? "\t" : ",",
      skip_empty_lines: true,
      info: true,
    });
    return (found as unknown as { readonly record: Cells; readonly info: { readonly lines: number } }[]).map(
      ({ record, info }) => ({ cells: record, line: info.lines }),
    );
  } catch (error) {
    throw new ReportError(`${name}: ${(error as CsvError).message}`);
  }
}
