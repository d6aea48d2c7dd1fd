/** Data of a page, loaded when it is shown. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { ApiFailure } from "./api.ts";

export type Resource<T> = {
  /** What came last; it stays while the next is on its way. */
  readonly data?: T;
  readonly error?: ApiFailure;
  readonly loading: boolean;
  /** When the data came, Unix milliseconds. */
  readonly at?: number;
  readonly reload: () => void;
};

/**
 * @param deps loads anew when one of them changes; the answer of what was asked before is dropped
 * @param everyMs loads again and again while somebody sees the page
 */
export function useResource<T>(
  load: (signal: AbortSignal) => Promise<T>,
  deps: readonly unknown[],
  { everyMs }: { readonly everyMs?: number } = {},
): Resource<T> {
  const [state, setState] = useState<Omit<Resource<T>, "reload">>({ loading: true });
  const [turn, setTurn] = useState(0);
  const key = JSON.stringify(deps);
  const shown = useRef(key);
  const reload = useCallback(() => setTurn((before) => before + 1), []);
  useEffect(() => {
    const left = new AbortController();
    const isSame = shown.current === key;
    shown.current = key;
    setState((before) => (isSame ? { ...before, loading: true } : { loading: true }));
    load(left.signal).then(
      (data) => !left.signal.aborted && setState({ data, loading: false, at: Date.now() }),
      (error) => !left.signal.aborted && setState((before) => ({ ...before, error, loading: false })),
    );
    return () => left.abort();
  }, [key, turn]);
  useEffect(() => {
    if (everyMs === undefined) return;
    const timer = setInterval(() => !document.hidden && reload(), everyMs);
    return () => clearInterval(timer);
  }, [everyMs, reload]);
  return { ...state, reload };
}
