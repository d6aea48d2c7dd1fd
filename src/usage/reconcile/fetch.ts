/** Asks a vendor's API for its reports, page by page. */
import { Check } from "@sinclair/typebox/value";
import { boundedBody } from "../../lib/http/bounded-body.ts";
import { formatPath, schemaErrors } from "../../lib/json/schema-errors.ts";
import { truncate } from "../../lib/text/truncate.ts";
import { ReportError, type Reported } from "./reported.ts";
import type { Question, Vendor } from "./vendor.ts";

const pageMs = 30_000;
/** A page has some megabytes at most, and a year's report twelve pages. */
const maxPageBytes = 32 * 1024 * 1024;
const maxPages = 500;

/**
 * @param base the address below which the vendor's API is
 * @param key one that may read reports; it is in no message
 * @throws ReportError that says which address answered what
 */
export async function fetchReports(vendor: Vendor, base: string, key: string, asked: Question): Promise<Reported[]> {
  const reports: Reported[] = [];
  for (const { kind, path, query } of vendor.asked(asked)) {
    const report: Reported = { kind, lines: [], days: new Set() };
    const seen = new Set<string>();
    for (let page: string | undefined; ; ) {
      const onward: [string, string][] = page === undefined ? [] : [["page", page]];
      const url = `${base}${path}?${new URLSearchParams([...query, ...onward].map(([name, value]): [string, string] => [name, value]))}`;
      const place = `${base}${path}`;
      const answer = parsePage(vendor, await textOf(vendor, url, place, key), place) as {
        readonly has_more: boolean;
        readonly next_page?: string | null;
      };
      vendor.lines(answer, place, report, asked.projects);
      if (!answer.has_more) break;
      page = answer.next_page ?? undefined;
      if (page === undefined || seen.has(page) || seen.size >= maxPages)
        throw new ReportError(
          `${place} says that there is more, and ${page === undefined ? "not where" : "comes to no end"}`,
        );
      seen.add(page);
    }
    reports.push(report);
  }
  return reports;
}

/** @throws ReportError that names the field */
export function parsePage(vendor: Vendor, text: string, place: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new ReportError(`${place}: that is no JSON: ${truncate(text.trim(), 100)}`);
  }
  if (Check(vendor.page, value)) return value;
  const [error] = schemaErrors(vendor.page, value, 1);
  throw new ReportError(`${place}: ${formatPath(error!.path)} ${error!.message}`);
}

async function textOf(vendor: Vendor, url: string, place: string, key: string): Promise<string> {
  try {
    const answer = await fetch(url, {
      headers: { ...vendor.headers(key), accept: "application/json" },
      redirect: "error",
      signal: AbortSignal.timeout(pageMs),
    });
    const body = await boundedBody(answer, maxPageBytes);
    if (body === undefined) throw new ReportError(`${place} answers with more than ${maxPageBytes >> 20} MiB`);
    const text = body.toString();
    if (answer.ok) return text;
    throw new ReportError(`${place} answers ${answer.status}: ${wordsOf(text, key)}${adviceOf(vendor, answer)}`);
  } catch (error) {
    if (error instanceof ReportError) throw error;
    throw new ReportError(`${place} can't be asked: ${(error as Error).message}`);
  }
}

/** An error's own words; a key that it repeats is left out. */
function wordsOf(text: string, key: string): string {
  let words = text;
  try {
    const { error } = JSON.parse(text) as { readonly error?: { readonly message?: unknown } };
    if (typeof error?.message === "string") words = error.message;
  } catch {}
  return truncate(words.replaceAll(key, "***").replace(/\s+/g, " ").trim(), 300);
}

function adviceOf({ variable }: Vendor, { status, headers }: Response): string {
  if (status === 401 || status === 403)
    return ` (${variable} must hold an admin key; a key for calls may not read reports)`;
  const after = headers.get("retry-after");
  return status === 429 && after !== null ? ` (try again in ${truncate(after, 20)} s)` : "";
}
