// Map with its controls. The scene follows from the state; MapView draws it.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { boxById, type Diagram } from "../map/diagram.ts";
import type { Point, Size } from "../map/geometry.ts";
import { layoutMap, type MapLayout, type MapTarget } from "../map/layout.ts";
import { isReachableFromInside, isReachableFromOutside } from "../map/map-lines.ts";
import type { ClusterScene } from "../map/scene.ts";
import { serviceDiagram } from "../map/service-diagram.ts";
import { detailOfTrace, traceDiagram, tracedService } from "../map/trace-overlay.ts";
import { MapView, type Scene } from "../map/view.ts";
import { groupByNamespace, groupByZone, HEALTH_TITLES, isFiltered, serviceTest } from "../state/filter.ts";
import { findingId, serviceKey } from "../state/state.ts";
import { counted, groupedNumber, readiness, typeTitle } from "../text/format.ts";
import type { Page } from "./page.ts";
import { HealthMark, Icon, IconButton } from "./parts.tsx";
import type { Theme } from "./theme.ts";

const ZOOM_STEP = 1.6;
const PAN_PIXELS = 80;

type Hovered = { target: MapTarget | { kind: "box"; id: string }; point: Point } | null;

export function MapPane({ page, theme }: { page: Page; theme: Theme }) {
  const { state, cluster, controller } = page;
  const ground = useRef<HTMLCanvasElement>(null);
  const lines = useRef<HTMLCanvasElement>(null);
  const upper = useRef<HTMLCanvasElement>(null);
  const view = useRef<MapView | null>(null);
  const [size, setSize] = useState<Size>({ width: 0, height: 0 });
  const [hovered, setHovered] = useState<Hovered>(null);
  const scene = useScene(page, size);
  const choose = useRef<(target: MapTarget | null) => void>(() => undefined);
  choose.current = (target) => {
    if (target !== null) {
      controller.select(target);
    } else if (state.selection.kind === "node") {
      controller.select({ kind: "cluster" });
    }
  };

  useEffect(() => {
    if (ground.current === null || lines.current === null || upper.current === null) {
      return;
    }
    const map = new MapView(ground.current, lines.current, upper.current, {
      onChoose: (target) => choose.current(target),
      onHover: (target, point) => setHovered(target === null ? null : { target, point }),
      onResize: setSize,
    });
    view.current = map;
    return () => map.destroy();
  }, []);
  useEffect(() => {
    if (scene !== null) {
      view.current?.show(scene);
    }
  }, [scene]);
  useEffect(() => {
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const update = () => view.current?.updatePalette();
    update();
    dark.addEventListener("change", update);
    return () => dark.removeEventListener("change", update);
  }, [theme]);

  const onKeyDown = (event: KeyboardEvent) => {
    const map = view.current;
    if (map === null || event.target !== event.currentTarget || event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const commands: Record<string, () => void> = {
      "+": () => map.zoomBy(ZOOM_STEP),
      "=": () => map.zoomBy(ZOOM_STEP),
      "-": () => map.zoomBy(1 / ZOOM_STEP),
      "0": () => map.fit(true),
      ArrowLeft: () => map.panBy(PAN_PIXELS, 0),
      ArrowRight: () => map.panBy(-PAN_PIXELS, 0),
      ArrowUp: () => map.panBy(0, PAN_PIXELS),
      ArrowDown: () => map.panBy(0, -PAN_PIXELS),
    };
    const command = commands[event.key];
    if (command !== undefined) {
      command();
      event.preventDefault();
    }
  };
  const { totals } = cluster;
  const summary = `Map of ${counted(totals.services, "Service")}, ${counted(totals.errors, "error")}, ${counted(totals.warnings, "warning")}. The lists hold the same content.`;
  return (
    <>
      <div class="map-bar">
        <Breadcrumb page={page} />
        <Legend />
        <div class="map-controls">
          <IconButton icon="plus" label="Zoom in" onClick={() => view.current?.zoomBy(ZOOM_STEP)} />
          <IconButton icon="minus" label="Zoom out" onClick={() => view.current?.zoomBy(1 / ZOOM_STEP)} />
          <IconButton icon="fit" label="Show all" onClick={() => view.current?.fit(true)} />
        </div>
      </div>
      <div class="map">
        <div class="map-area" role="group" aria-label={summary} tabIndex={0} onKeyDown={onKeyDown}>
          <canvas ref={ground} class="canvas" aria-hidden="true" />
          <canvas ref={lines} class="canvas" aria-hidden="true" />
          <canvas ref={upper} class="canvas canvas-upper" aria-hidden="true" />
        </div>
        {cluster.services.size === 0 && (
          <div class="map-message">
            <h2>No Services yet</h2>
            <p>The chart follows the cluster: a Service appears here as soon as it exists.</p>
            <code>kubectl create service clusterip web --tcp=80</code>
          </div>
        )}
        {hovered !== null && <Tooltip hovered={hovered} page={page} scene={scene} size={size} />}
      </div>
    </>
  );
}

/** Scene of the state: a trace, a Service, or the cluster. */
function useScene(page: Page, size: Size): Scene | null {
  const { state, cluster } = page;
  const clusterScene = useClusterScene(page, size);
  const { selection, detail, trace, past } = state;
  const traced = trace.isOpen && trace.result.kind === "done" ? trace.result.trace : null;
  return useMemo((): Scene | null => {
    if (size.width === 0) {
      return null;
    }
    const tracedKey = traced === null ? null : tracedService(traced);
    const key = tracedKey ?? (selection.kind === "service" ? selection.key : null);
    const row = key === null ? undefined : cluster.services.get(key);
    if (traced !== null && (tracedKey === null || row === undefined)) {
      return { kind: "diagram", id: "trace", diagram: traceDiagram(traced) };
    }
    if (row !== undefined) {
      const known = past === null && detail.kind === "loaded" && detail.key === key ? detail.detail : null;
      const full = known ?? (traced === null ? null : detailOfTrace(row, traced));
      return {
        kind: "diagram",
        id: `${traced === null ? "service" : "trace"}:${key}`,
        diagram: serviceDiagram(row, full, cluster.nodes, traced),
      };
    }
    const focus = selection.kind === "namespace" ? selection.name : "";
    return { kind: "cluster", cluster: clusterScene, focus };
  }, [clusterScene, selection, detail, traced, size, past === null]);
}

function useClusterScene(page: Page, size: Size): ClusterScene {
  const { state, cluster } = page;
  const previous = useRef<MapLayout | null>(null);
  const groups = useMemo(() => groupByNamespace(cluster.services.values()), [cluster.services]);
  const zones = useMemo(() => groupByZone(cluster.nodes.values()), [cluster.nodes]);
  const layout = useMemo(() => {
    const kept = previous.current;
    const isSame =
      kept !== null &&
      kept.size.width === size.width &&
      kept.size.height === size.height &&
      kept.cells.size === cluster.services.size &&
      [...cluster.services.keys()].every((key) => kept.cells.has(key)) &&
      kept.nodes.size === cluster.nodes.size &&
      [...cluster.nodes.values()].every((node) => kept.nodes.has(node.name));
    const next = isSame ? kept : layoutMap(groups, zones, size, kept);
    previous.current = next;
    return next;
  }, [groups, zones, size]);
  const matches = useMemo(() => {
    const { selection } = state;
    if (selection.kind === "finding") {
      const chosen = state.findings.find((finding) => findingId(finding) === selection.id);
      return chosen === undefined || chosen.services.length === 0 ? null : new Set(chosen.services);
    }
    if (!isFiltered(state.filter)) {
      return null;
    }
    const test = serviceTest(state.filter, cluster.nodes);
    return new Set([...cluster.services.values()].filter(test).map(serviceKey));
  }, [cluster.services, cluster.nodes, state.filter, state.selection, state.findings]);
  const reach = useMemo(() => {
    const rows = [...cluster.services.values()];
    return { outside: rows.filter(isReachableFromOutside).length, inside: rows.filter(isReachableFromInside).length };
  }, [cluster.services]);
  return useMemo(
    () => ({
      layout,
      services: cluster.services,
      nodes: cluster.nodes,
      groups: new Map(groups.map((group) => [group.name, group])),
      matches,
      selection: state.selection,
      reach,
    }),
    [layout, cluster.services, cluster.nodes, groups, matches, state.selection, reach],
  );
}

function Breadcrumb({ page }: { page: Page }) {
  const { state, controller, cluster } = page;
  const { selection, trace } = state;
  const isTraced = trace.isOpen && trace.result.kind === "done";
  const [namespace, name] =
    selection.kind === "service" ? selection.key.split("/") : selection.kind === "namespace" ? [selection.name] : [];
  return (
    <nav class="breadcrumb" aria-label="Position on the map">
      <button
        type="button"
        class="crumb"
        aria-current={namespace === undefined ? "page" : undefined}
        onClick={() => controller.select({ kind: "cluster" })}
      >
        {cluster.name === "" ? "Cluster" : cluster.name}
      </button>
      {namespace !== undefined && (
        <>
          <Icon name="chevron" />
          <button
            type="button"
            class="crumb"
            aria-current={name === undefined ? "page" : undefined}
            onClick={() => controller.select({ kind: "namespace", name: namespace })}
          >
            {namespace}
          </button>
        </>
      )}
      {name !== undefined && (
        <>
          <Icon name="chevron" />
          <span class="crumb" aria-current="page">
            {name}
          </span>
        </>
      )}
      {isTraced && (
        <>
          <Icon name="chevron" />
          <span class="crumb">Trace of {trace.form.url}</span>
        </>
      )}
    </nav>
  );
}

function Legend() {
  return (
    <ul class="legend" aria-label="Legend">
      {(["ok", "warning", "error", "idle"] as const).map((health) => (
        <li key={health}>
          <HealthMark health={health} title="" />
          {HEALTH_TITLES[health]}
        </li>
      ))}
    </ul>
  );
}

/** Text beside the pointer. The lists and panels hold the same text for the keyboard. */
function Tooltip({ hovered, page, scene, size }: { hovered: NonNullable<Hovered>; page: Page; scene: Scene | null; size: Size }) {
  const lines = tooltipLines(hovered.target, page, scene?.kind === "diagram" ? scene.diagram : null);
  if (lines.length === 0) {
    return null;
  }
  const [title, ...rest] = lines;
  const isRight = hovered.point.x > size.width - 280;
  const isLow = hovered.point.y > size.height - 130;
  const x = isRight ? hovered.point.x - 14 : hovered.point.x + 14;
  const y = isLow ? hovered.point.y - 12 : hovered.point.y + 16;
  const shift = `translate(${isRight ? "-100%" : "0"}, ${isLow ? "-100%" : "0"})`;
  return (
    <div class="tooltip" aria-hidden="true" style={{ transform: `translate(${x}px, ${y}px) ${shift}` }}>
      <b>{title}</b>
      {rest.map((line) => (
        <span>{line}</span>
      ))}
    </div>
  );
}

function tooltipLines(target: NonNullable<Hovered>["target"], page: Page, diagram: Diagram | null): string[] {
  const { cluster } = page;
  if (target.kind === "box") {
    const box = diagram === null ? undefined : boxById(diagram, target.id);
    return box === undefined ? [] : [box.title, ...box.lines];
  }
  if (target.kind === "namespace") {
    const count = [...cluster.services.values()].filter((row) => row.namespace === target.name).length;
    return [target.name, `namespace, ${counted(count, "Service")}`];
  }
  if (target.kind === "node") {
    const node = cluster.nodes.get(target.name);
    return node === undefined
      ? []
      : [
          node.name,
          `node${node.zone === "" ? "" : ` in zone ${node.zone}`}, ${node.ready ? "ready" : "not ready"}`,
          counted(node.endpoints, "endpoint"),
        ];
  }
  const row = cluster.services.get(target.key);
  if (row === undefined) {
    return [];
  }
  const [errors, warnings] = row.findings;
  const findings = [errors > 0 ? counted(errors, "error") : "", warnings > 0 ? counted(warnings, "warning") : ""]
    .filter((text) => text !== "")
    .join(", ");
  return [
    serviceKey(row),
    `${typeTitle(row)}, ${readiness(row)}`,
    `${groupedNumber(row.nodes.length)} ${row.nodes.length === 1 ? "node" : "nodes"}`,
    findings,
  ].filter((text) => text !== "");
}
