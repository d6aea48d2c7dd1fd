/** Data of a page, loaded when it is shown. */
import { useCallback, useEffect, useState } from "preact/hooks";
import { ApiFailure, isOffline } from "./api.ts";

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
  const key = JSON.stringify(deps);
  const [state, setState] = useState<Omit<Resource<T>, "reload"> & { readonly of: string }>({ loading: true, of: key });
  const [turn, setTurn] = useState(0);
  const reload = useCallback(() => setTurn((before) => before + 1), []);
  useEffect(() => {
    const left = new AbortController();
    setState((before) => (before.of === key ? { ...before, loading: true } : { loading: true, of: key }));
    load(left.signal).then(
      (data) => !left.signal.aborted && setState({ data, loading: false, at: Date.now(), of: key }),
      (error) => !left.signal.aborted && setState((before) => ({ ...before, error, loading: false })),
    );
    return () => left.abort();
  }, [key, turn]);
  useEffect(() => {
    if (everyMs === undefined) return;
    const timer = setInterval(() => !document.hidden && reload(), everyMs);
    return () => clearInterval(timer);
  }, [everyMs, reload]);
  const isLost = state.error?.code === "offline";
  useEffect(() => (isLost ? isOffline.subscribe((still) => void (!still && reload())) : undefined), [isLost, reload]);
  // The first time after a change, what is there is still the answer to what was asked before.
  const { of, ...current } = state;
  return of === key ? { ...current, reload } : { loading: true, reload };
}

export type Action = {
  readonly busy: boolean;
  readonly error?: ApiFailure;
  /** @returns whether it was done */
  readonly run: (work: () => Promise<unknown>) => Promise<boolean>;
};

/** A change that a button makes: whether it is under way, and why it failed. */
export function useAction(): Action {
  const [state, setState] = useState<Omit<Action, "run">>({ busy: false });
  const run = async (work: () => Promise<unknown>) => {
    setState({ busy: true });
    try {
      await work();
      setState({ busy: false });
      return true;
    } catch (error) {
      const failure = error instanceof ApiFailure ? error : new ApiFailure(0, "failed", String(error));
      setState({ busy: false, error: failure });
      return false;
    }
  };
  return { ...state, run };
}
