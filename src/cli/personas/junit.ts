/**
 * Test results as JUnit's XML, by the schema of Apache Ant's reports, which CI systems read; Jenkins' own is looser.
 * Sources: https://github.com/windyroad/JUnit-Schema, https://github.com/jenkinsci/xunit-plugin (junit-10.xsd)
 */

import type { TestResult } from "../../operate/suites/run-tests.ts";
import { type SideResult, verdictReasonOf } from "../../operate/suites/test-report.ts";
import { outputOf, textOfOutput } from "../../personas/suites/answer.ts";

/** @param startedAt Unix milliseconds */
export function junitXml(sides: readonly SideResult[], startedAt: number): string {
  const suites = sides.flatMap(({ label, results }) => {
    const ids = [...new Set(results.map(({ prepared }) => prepared.persona.id))];
    return ids.map((id) => ({
      name: sides.length > 1 ? `${id} (${label})` : id,
      results: results.filter(({ prepared }) => prepared.persona.id === id),
    }));
  });
  const body = suites.map(({ name, results }, id) => suiteXml(name, id, results, startedAt)).join("");
  return `<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n${body}</testsuites>\n`;
}

function suiteXml(name: string, id: number, results: readonly TestResult[], startedAt: number): string {
  const of = (verdict: string) => results.filter((one) => one.verdict === verdict).length;
  const attributes = {
    name,
    package: "personas",
    id,
    // Without a zone, as the schema wants it; in UTC.
    timestamp: new Date(startedAt).toISOString().slice(0, 19),
    hostname: "localhost",
    tests: results.length,
    failures: of("fail"),
    errors: of("error"),
    time: seconds(results),
  };
  const cases = results.map((result) => caseXml(result, name)).join("");
  return `<testsuite${xmlAttributes(attributes)}>\n<properties/>\n${cases}<system-out/>\n<system-err/>\n</testsuite>\n`;
}

function caseXml(result: TestResult, classname: string): string {
  const { prepared, verdict } = result;
  const opening = `<testcase${xmlAttributes({ name: prepared.test.name, classname, time: seconds([result]) })}`;
  if (verdict === "pass") return `${opening}/>\n`;
  const tag = verdict === "fail" ? "failure" : "error";
  const run = result.runs.find((one) => one.verdict === verdict);
  const answer = run?.answer === undefined ? "" : `\n${textOfOutput(outputOf(run.answer))}`;
  const text = `${prepared.file}:${prepared.test.line}${answer}`;
  const message = verdictReasonOf(result);
  return `${opening}>\n<${tag}${xmlAttributes({ type: tag, message })}>${escapeXml(text)}</${tag}>\n</testcase>\n`;
}

/** The time of the answers, which ran beside others. */
function seconds(results: readonly TestResult[]): string {
  const runs = results.flatMap((one) => one.runs);
  return (runs.reduce((sum, { answer }) => sum + (answer?.latencyMs ?? 0), 0) / 1000).toFixed(3);
}

const xmlAttributes = (attributes: Readonly<Record<string, string | number>>) =>
  Object.entries(attributes)
    .map(([name, value]) => ` ${name}="${escapeAttribute(String(value))}"`)
    .join("");

/** Characters that XML 1.0 can't hold, not even by a reference. Source: https://www.w3.org/TR/xml/#charsets */
const notInXml = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g;
const references: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };

const escapeXml = (text: string) =>
  text
    .toWellFormed()
    .replace(notInXml, "\ufffd")
    .replace(/[&<>"]/g, (character) => references[character]!);

/** Line breaks stay what they are, where a reader of attributes makes spaces of them. */
const escapeAttribute = (text: string) =>
  escapeXml(text).replace(/[\t\n\r]/g, (character) => `&#${character.charCodeAt(0)};`);
