/** Ten seconds in which an act that asks nobody can be taken back. */
import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Button } from "./form.tsx";

const undoMs = 10_000;

type Offer = {
  /** What was done, or is about to be. */
  readonly words: string;
  readonly undo: () => unknown;
  /** What can't be taken back is done then alone, or as soon as the page is left. */
  readonly atEnd?: () => unknown;
};

/** @returns the offer in force, as the page shows it, and a way to make one: what was offered before is over with it */
export function useUndo(): { readonly notice: VNode | null; readonly offer: (next: Offer) => void } {
  const [shown, setShown] = useState<Offer>();
  const held = useRef<{ readonly offer: Offer; readonly timer: ReturnType<typeof setTimeout> } | undefined>(undefined);
  const take = () => {
    const { offer, timer } = held.current ?? {};
    clearTimeout(timer);
    held.current = undefined;
    setShown(undefined);
    return offer;
  };
  const end = () => void take()?.atEnd?.();
  useEffect(() => {
    addEventListener("pagehide", end);
    return () => {
      removeEventListener("pagehide", end);
      end();
    };
  }, []);
  return {
    offer: (offer) => {
      end();
      held.current = { offer, timer: setTimeout(end, undoMs) };
      setShown(offer);
    },
    notice:
      shown === undefined ? null : (
        <p class="notice" role="status">
          {shown.words} <Button onClick={() => take()?.undo()}>Undo</Button>
        </p>
      ),
  };
}
