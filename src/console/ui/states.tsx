/** What a page shows while, and where, there is nothing to show. */
import type { ComponentChildren } from "preact";
import type { ApiFailure } from "../api.ts";
import type { Resource } from "../data.ts";
import { Button } from "./form.tsx";

/** What comes, in its shape. */
export type Shape = "rows" | "numbers" | "table";

export const Loading = ({ shape = "rows" }: { readonly shape?: Shape }) => (
  <p class={`state skeleton soon ${shape}`} role="status">
    <span class="unseen">Loading…</span>
    {Array.from({ length: shape === "table" ? 14 : 6 }, (_, at) => (
      <i key={at} aria-hidden="true" />
    ))}
  </p>
);

/** @param retry asks again */
export function Failure({ error, retry }: { readonly error: ApiFailure | Error; readonly retry?: () => void }) {
  const code = "code" in error ? `${error.code}${error.param ? ` (${error.param})` : ""}` : error.name;
  return (
    <div class="state bad" role="alert">
      <p>{error.message}</p>
      <p class="muted">{code === "offline" ? "It is asked again every few seconds." : code}</p>
      {retry !== undefined && <Button onClick={retry}>Try again</Button>}
    </div>
  );
}

/** Says what is missing, and in `children` what to do next. */
export function Empty({ title, children }: { readonly title: string; readonly children?: ComponentChildren }) {
  return (
    <div class="state">
      <p>{title}</p>
      <div class="muted">{children}</div>
    </div>
  );
}

/** What is loaded, or why it is not there; what came before stays while the next is on its way. */
export function Loaded<T>({
  resource,
  shape,
  children,
}: {
  readonly resource: Resource<T>;
  readonly shape?: Shape;
  readonly children: (data: T) => ComponentChildren;
}) {
  const { data, error, reload } = resource;
  return (
    <>
      {error !== undefined && <Failure error={error} retry={reload} />}
      {data === undefined ? error === undefined && <Loading {...(shape && { shape })} /> : children(data)}
    </>
  );
}
