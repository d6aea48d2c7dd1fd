/** The time that is left until something, which counts down. */
import { useEffect, useState } from "preact/hooks";
import { duration, Time } from "../../ui/format.tsx";

/** @param onEnd once it is over */
export function Until({ at, onEnd }: { readonly at: string; readonly onEnd?: () => void }) {
  const end = Date.parse(at);
  const [now, setNow] = useState(Date.now);
  const isOver = now >= end;
  useEffect(() => {
    if (isOver) {
      onEnd?.();
      return;
    }
    const timer = setInterval(() => !document.hidden && setNow(Date.now()), 1_000);
    return () => clearInterval(timer);
  }, [isOver, at]);
  return (
    <>
      {isOver ? "over" : `${duration(Math.ceil((end - now) / 1_000) * 1_000)} left,`} until <Time at={at} exact />
    </>
  );
}
