/** What a call with a `service-request-id` is known by. */
export type CallName = {
  /** The owner of the id: the API key's id and the surface. */
  readonly scope: string;
  readonly requestId: string;
};

export type Claim = CallName & { readonly fingerprint: string };

export const callKeyOf = ({ scope, requestId }: CallName) => `${scope}\n${requestId}`;
