/** Signs the requests of an account without a key: with a signature over them, or a token that ends. */
import type { HttpRequest } from "../../lib/http/client.ts";

export interface Signer {
  /**
   * @param request with all its headers
   * @throws ApiError upstream_unavailable when no secret can be had
   */
  sign(request: HttpRequest): Promise<HttpRequest>;
  /** The upstream answered a signed request with 401 or 403: a cached secret is fetched anew for the next one. */
  refused(headers: HttpRequest["headers"]): void;
  /** Gets a secret, if there is none yet. @returns the place that it came from, in words @throws ApiError as `sign` does */
  source(): Promise<string>;
  /** True if a text holds a secret that is in use. */
  isIn(text: string): boolean;
}

/** Stands where a signature would: for who shows requests. */
export const maskedSigner: Signer = {
  sign: async (request) => ({ ...request, headers: { ...request.headers, authorization: "***" } }),
  refused: () => {},
  source: () => Promise.resolve("***"),
  isIn: () => false,
};
