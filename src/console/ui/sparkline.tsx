/** The course of a number, as small as a word; its values stand in the chart of the same number. */

const [width, height] = [100, 24];

export function Sparkline({ of }: { readonly of: readonly (number | null)[] }) {
  if (of.length < 2) return null;
  const most = Math.max(...of.map((one) => one ?? 0), 0) || 1;
  const place = (value: number, at: number) =>
    `${((at * width) / (of.length - 1)).toFixed(1)} ${(height - 1 - (value / most) * (height - 3)).toFixed(1)}`;
  const points = of.flatMap((value, at) => (value === null ? [] : place(value, at)));
  if (points.length < 2) return null;
  const [first, last] = [points[0]!.split(" ")[0], points.at(-1)!.split(" ")[0]];
  const line = `M${points.join("L")}`;
  return (
    <svg class="sparkline" viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" aria-hidden="true">
      <path class="below" d={`${line}L${last} ${height}L${first} ${height}Z`} />
      <path d={line} />
    </svg>
  );
}
