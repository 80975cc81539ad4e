// Curves of the history, as paths of SVG.

import type { HistorySample } from "../contract.ts";

/** Returns the last sample at or before a moment, or the first one. */
export function nearestIndex(samples: HistorySample[], time: string): number {
  const target = Date.parse(time);
  let nearest = 0;
  samples.forEach((sample, index) => {
    if (Date.parse(sample.time) <= target) {
      nearest = index;
    }
  });
  return nearest;
}

/** Paths in a box of 100 units height: bars of errors and warnings, line of connections. */
export function curvePaths(samples: HistorySample[]): { errors: string; warnings: string; connections: string } {
  const problemsMax = Math.max(4, ...samples.map((sample) => sample.errors + sample.warnings)) * 1.25;
  const connectionsMax = Math.max(1, ...samples.map((sample) => sample.connections ?? 0));
  const bar = (index: number, from: number, to: number) =>
    to > from ? `M${index} ${(100 - from).toFixed(1)}V${(100 - to).toFixed(1)}h1V${(100 - from).toFixed(1)}Z` : "";
  const height = (count: number) => (count / problemsMax) * 62;
  const known = samples.some((sample) => sample.connections !== null);
  const line = samples.map(
    (sample, index) =>
      `${index === 0 ? "M" : "L"}${index + 0.5} ${(96 - ((sample.connections ?? 0) / connectionsMax) * 84).toFixed(1)}`,
  );
  return {
    errors: samples.map((sample, index) => bar(index, 0, height(sample.errors))).join(""),
    warnings: samples.map((sample, index) => bar(index, height(sample.errors), height(sample.errors + sample.warnings))).join(""),
    connections: known ? `${line.join("")}L${samples.length} 100L0 100Z` : "",
  };
}
