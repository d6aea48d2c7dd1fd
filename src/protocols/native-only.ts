/** Collects what only an upstream of this format takes: another one's call is refused for it, naming its place. */
import type { JsonObject } from "../lib/json/json.ts";
import { ApiError } from "./errors.ts";

/** A tool that the upstream would run itself, as the request declares it, and the error of an upstream that has none. */
export type HostedTool = {
  /** Its name in the request's format, without a date: `web_search`. */
  readonly type: string;
  readonly declared: JsonObject;
  /** Its place in the request. */
  readonly path: string;
  readonly refusal: ApiError;
};

/** Filled while a request is translated. */
export class NativeOnly {
  /** The first of what any other upstream would have to refuse. */
  refusal: ApiError | undefined;
  /** The first of the tools that it may be set up to leave out. */
  toolRefusal: ApiError | undefined;
  /** Those that something else may stand in for. Absent: there are none. */
  hosted: HostedTool[] | undefined;

  refuse(error: ApiError): void {
    this.refusal ??= error;
  }

  part(path: string, message: string): void {
    this.refuse(ApiError.unsupported(path, `${path}: ${message}`));
  }

  /** @param hosted its type and declaration, where something else may stand in for it, and the tool's own place */
  tool(path: string, message: string, hosted?: Pick<HostedTool, "type" | "declared" | "path">): void {
    const refusal = ApiError.unsupported(path, `${path}: ${message}`);
    this.toolRefusal ??= refusal;
    if (hosted === undefined) return;
    this.hosted ??= [];
    this.hosted.push({ ...hosted, type: hosted.type.replace(/_20\d{6}$/, ""), refusal });
  }
}
