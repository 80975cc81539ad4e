// Slider over the history. Its background shows errors, warnings and connections of each sample.

import { useMemo } from "preact/hooks";
import type { History, HistorySample } from "../contract.ts";
import { ago, counted, groupedNumber, timeOfDay } from "../text/format.ts";
import type { Page } from "./page.ts";

export function Timeline({ page }: { page: Page }) {
  const { history, past, cluster } = page.state;
  const samples = history?.samples ?? [];
  const now = cluster?.time ?? "";
  const index = past === null ? samples.length : nearestIndex(samples, past.time);
  const choose = (position: number) => {
    const sample = samples[position];
    if (sample === undefined) {
      page.store.dispatch({ kind: "live" });
    } else {
      page.controller.showPast(sample.time);
    }
  };
  const first = samples[0];
  const chosen = past === null ? undefined : samples[index];
  const text =
    chosen === undefined
      ? "live"
      : `${timeOfDay(chosen.time)}, ${counted(chosen.errors, "error")}, ${counted(chosen.warnings, "warning")}, ${groupedNumber(chosen.endpointsReady)} of ${groupedNumber(chosen.endpoints)} endpoints ready`;
  return (
    <section class={`timeline${past === null ? "" : " is-past"}`} aria-label="Time">
      <span class="timeline-edge">{first === undefined ? "" : timeOfDay(first.time)}</span>
      <div class="timeline-track">
        {history !== null && samples.length > 1 && <Curves history={history} />}
        <input
          type="range"
          min={0}
          max={samples.length}
          step={1}
          value={index}
          disabled={samples.length === 0}
          aria-label="Time in the last hour"
          aria-valuetext={text}
          onInput={(event) => choose(Number(event.currentTarget.value))}
        />
      </div>
      <span class="timeline-state" role="status">
        {past === null ? (
          <span class="muted">{samples.length === 0 ? "The history begins now" : "now"}</span>
        ) : (
          <>
            <b>{timeOfDay(past.time)}</b> <span class="muted">{past.message === "" ? ago(past.time, now) : past.message}</span>
          </>
        )}
      </span>
      <button
        type="button"
        class={`button small live${past === null ? " is-live" : ""}`}
        disabled={past === null}
        onClick={() => page.store.dispatch({ kind: "live" })}
      >
        <span class="live-dot" aria-hidden="true" />
        {past === null ? "Live" : "Back to live"}
      </button>
    </section>
  );
}

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

function Curves({ history }: { history: History }) {
  const paths = useMemo(() => curvePaths(history.samples), [history]);
  return (
    <svg class="curves" viewBox={`0 0 ${history.samples.length} 100`} preserveAspectRatio="none" aria-hidden="true">
      <path class="curve-connections" d={paths.connections} />
      <path class="curve-warnings" d={paths.warnings} />
      <path class="curve-errors" d={paths.errors} />
    </svg>
  );
}

/** Paths in a box of 100 units height: bars of errors and warnings, line of connections. */
export function curvePaths(samples: HistorySample[]): { errors: string; warnings: string; connections: string } {
  const problemsMax = Math.max(4, ...samples.map((sample) => sample.errors + sample.warnings));
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
