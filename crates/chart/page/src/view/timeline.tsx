// Slider over the history. Its background shows errors, warnings and connections of each sample.

import { useMemo } from "preact/hooks";
import type { History } from "../contract.ts";
import { curvePaths, nearestIndex } from "../text/curves.ts";
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
