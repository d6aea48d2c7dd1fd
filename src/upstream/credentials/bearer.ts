/** Signs requests with an access token that ends. */
import type { HttpRequest } from "../../lib/http/client.ts";
import type { CachedSecret } from "./cached-secret.ts";
import type { Signer } from "./signer.ts";

export type AccessToken = {
  readonly token: string;
  /** Sent beside it. */
  readonly headers?: Readonly<Record<string, string>>;
};

export class BearerSigner implements Signer {
  readonly #tokens: CachedSecret<AccessToken>;

  constructor(tokens: CachedSecret<AccessToken>) {
    this.#tokens = tokens;
  }

  async sign(request: HttpRequest): Promise<HttpRequest> {
    const { token, headers } = await this.#tokens.get();
    return { ...request, headers: { ...request.headers, ...headers, authorization: `Bearer ${token}` } };
  }

  refused({ authorization }: HttpRequest["headers"]): void {
    this.#tokens.refused(({ token }) => authorization === `Bearer ${token}`);
  }

  isIn(text: string): boolean {
    const token = this.#tokens.held?.value.token;
    return token !== undefined && text.includes(token);
  }

  async source(): Promise<string> {
    await this.#tokens.get();
    return this.#tokens.held!.source;
  }
}
