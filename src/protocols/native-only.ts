/** Collects what only an upstream of this format takes: another one's call is refused for it, naming its place. */
import { ApiError } from "./errors.ts";

/** Filled while a request is translated. */
export class NativeOnly {
  /** The first of what any other upstream would have to refuse. */
  refusal: ApiError | undefined;
  /** The first of the tools that it may be set up to leave out. */
  toolRefusal: ApiError | undefined;

  refuse(error: ApiError): void {
    this.refusal ??= error;
  }

  part(path: string, message: string): void {
    this.refuse(ApiError.unsupported(path, `${path}: ${message}`));
  }

  tool(path: string, message: string): void {
    this.toolRefusal ??= ApiError.unsupported(path, `${path}: ${message}`);
  }
}
