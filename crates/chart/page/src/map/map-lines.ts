// Lines of the overview: reach of clients, traffic, and the nodes of endpoints. Pure.

import type { ServiceRow } from "../contract.ts";
import type { NamespaceGroup } from "../state/filter.ts";
import type { ServiceKey } from "../state/state.ts";
import { center, type Point, type Rect } from "./geometry.ts";
import type { MapLayout, MapTarget } from "./layout.ts";

export interface MapLine {
  from: Point;
  to: Point;
  /** Width in pixels. */
  width: number;
  /** Connections a second; `null` for a line without known traffic. */
  perSecond: number | null;
  style: "traffic" | "reach";
}

/** More lines are not legible. */
const NAMESPACE_LINES_MAX = 8;
/** Width of the busiest line. */
const NAMESPACE_LINE_PIXELS = 3;
const NODE_LINES_MAX = 40;

export function lineWidth(perSecond: number): number {
  return Math.min(7, 1.2 + Math.log10(1 + perSecond) * 1.7);
}

export function isReachableFromOutside(row: ServiceRow): boolean {
  return row.frontends.some(
    (frontend) => frontend.kind === "nodePort" || frontend.kind === "loadBalancer" || frontend.kind === "externalIP",
  );
}

export function isReachableFromInside(row: ServiceRow): boolean {
  return row.headless || row.frontends.some((frontend) => frontend.kind === "clusterIP" || frontend.kind === "externalName");
}

function leftEdge(rect: Rect): Point {
  return { x: rect.x, y: rect.y + rect.height / 2 };
}

function rightEdge(rect: Rect): Point {
  return { x: rect.x + rect.width, y: rect.y + rect.height / 2 };
}

/** Middle of the clients' column, where lines of traffic begin. */
export function trafficOrigin(layout: MapLayout): Point {
  return center(layout.clientColumn);
}

/** Traffic of the busiest namespaces. */
export function overviewLines(layout: MapLayout, groups: ReadonlyMap<string, NamespaceGroup>): MapLine[] {
  const busiest = layout.namespaces
    .map((area) => ({ area, perSecond: groups.get(area.name)?.connectionsPerSecond ?? 0 }))
    .filter((entry) => entry.perSecond > 0)
    .sort((left, right) => right.perSecond - left.perSecond)
    .slice(0, NAMESPACE_LINES_MAX);
  const most = Math.log1p(busiest[0]?.perSecond ?? 1);
  return busiest.map(({ area, perSecond }): MapLine => {
    const to = { x: area.x + 2, y: area.y + area.headerHeight / 2 };
    return {
      from: trafficOrigin(layout),
      to,
      width: 1 + (NAMESPACE_LINE_PIXELS * Math.log1p(perSecond)) / most,
      perSecond,
      style: "traffic",
    };
  });
}

export interface MapLineSource {
  layout: MapLayout;
  services: ReadonlyMap<ServiceKey, ServiceRow>;
  clientBoxes: { kind: "outside" | "inside"; rect: Rect }[];
}

/** Lines of one Service or node under the pointer, or chosen. */
export function targetLines(source: MapLineSource, target: MapTarget): MapLine[] {
  if (target.kind === "service") {
    return serviceLines(source, target.key);
  }
  if (target.kind === "node") {
    return nodeLines(source, target.name);
  }
  return [];
}

function serviceLines({ layout, services, clientBoxes }: MapLineSource, key: ServiceKey): MapLine[] {
  const row = services.get(key);
  const cell = layout.cells.get(key);
  if (row === undefined || cell === undefined) {
    return [];
  }
  const perSecond = row.traffic?.connectionsPerSecond ?? null;
  const reaches = { outside: isReachableFromOutside(row), inside: isReachableFromInside(row) };
  const lines: MapLine[] = clientBoxes
    .filter((clientBox) => reaches[clientBox.kind])
    .map((clientBox) => ({ from: rightEdge(clientBox.rect), to: leftEdge(cell), width: 1.5, perSecond: null, style: "reach" }));
  const total = Math.max(1, row.total);
  const shares = [...row.nodes].sort((left, right) => right[2] - left[2]).slice(0, NODE_LINES_MAX);
  for (const [name, ready, count] of shares) {
    const node = layout.nodes.get(name);
    if (node !== undefined) {
      const share = perSecond === null || ready === 0 ? null : (perSecond * count) / total;
      lines.push({
        from: rightEdge(cell),
        to: leftEdge(node),
        width: 1 + Math.min(4, Math.log2(1 + count)),
        perSecond: share,
        style: ready === 0 ? "reach" : "traffic",
      });
    }
  }
  return lines;
}

function nodeLines({ layout, services }: MapLineSource, name: string): MapLine[] {
  const node = layout.nodes.get(name);
  if (node === undefined) {
    return [];
  }
  const lines: MapLine[] = [];
  for (const [key, row] of services) {
    const cell = layout.cells.get(key);
    const share = row.nodes.find(([entry]) => entry === name);
    if (cell !== undefined && share !== undefined && lines.length < NODE_LINES_MAX * 4) {
      lines.push({
        from: center(cell),
        to: leftEdge(node),
        width: 1 + Math.min(3, Math.log2(1 + share[2])),
        perSecond: null,
        style: "reach",
      });
    }
  }
  return lines;
}
