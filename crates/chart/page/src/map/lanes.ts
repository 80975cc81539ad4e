// Lines of the overview: reach of clients, traffic, and the nodes of endpoints. Pure.

import type { ServiceRow } from "../contract.ts";
import type { NamespaceGroup } from "../state/filter.ts";
import type { ServiceKey } from "../state/state.ts";
import { center, type Point, type Rect } from "./geometry.ts";
import type { MapLayout, MapTarget } from "./layout.ts";

export interface Lane {
  from: Point;
  to: Point;
  /** Width in pixels. */
  width: number;
  /** Connections a second; `null` for a line without known traffic. */
  perSecond: number | null;
  style: "traffic" | "reach";
}

/** More lines are not legible. */
const DISTRICT_LANES_MAX = 8;
/** Width of the busiest line. */
const DISTRICT_LANE_PIXELS = 3;
const NODE_LANES_MAX = 40;

export function laneWidth(perSecond: number): number {
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
export function roseOf(layout: MapLayout): Point {
  return center(layout.sea);
}

/** Traffic of the busiest namespaces. */
export function overviewLanes(layout: MapLayout, groups: ReadonlyMap<string, NamespaceGroup>): Lane[] {
  const busiest = layout.districts
    .map((place) => ({ place, perSecond: groups.get(place.name)?.connectionsPerSecond ?? 0 }))
    .filter((entry) => entry.perSecond > 0)
    .sort((left, right) => right.perSecond - left.perSecond)
    .slice(0, DISTRICT_LANES_MAX);
  const most = Math.log1p(busiest[0]?.perSecond ?? 1);
  return busiest.map(({ place, perSecond }): Lane => {
    const to = { x: place.x + 2, y: place.y + place.headerHeight / 2 };
    return {
      from: roseOf(layout),
      to,
      width: 1 + (DISTRICT_LANE_PIXELS * Math.log1p(perSecond)) / most,
      perSecond,
      style: "traffic",
    };
  });
}

export interface LaneSource {
  layout: MapLayout;
  services: ReadonlyMap<ServiceKey, ServiceRow>;
  entrances: { kind: "outside" | "inside"; rect: Rect }[];
}

/** Lines of one Service or node under the pointer, or chosen. */
export function targetLanes(source: LaneSource, target: MapTarget): Lane[] {
  if (target.kind === "service") {
    return serviceLanes(source, target.key);
  }
  if (target.kind === "node") {
    return nodeLanes(source, target.name);
  }
  return [];
}

function serviceLanes({ layout, services, entrances }: LaneSource, key: ServiceKey): Lane[] {
  const row = services.get(key);
  const berth = layout.berths.get(key);
  if (row === undefined || berth === undefined) {
    return [];
  }
  const perSecond = row.traffic?.connectionsPerSecond ?? null;
  const reaches = { outside: isReachableFromOutside(row), inside: isReachableFromInside(row) };
  const lanes: Lane[] = entrances
    .filter((entrance) => reaches[entrance.kind])
    .map((entrance) => ({ from: rightEdge(entrance.rect), to: leftEdge(berth), width: 1.5, perSecond: null, style: "reach" }));
  const total = Math.max(1, row.total);
  const shares = [...row.nodes].sort((left, right) => right[2] - left[2]).slice(0, NODE_LANES_MAX);
  for (const [name, ready, count] of shares) {
    const node = layout.nodes.get(name);
    if (node !== undefined) {
      const share = perSecond === null || ready === 0 ? null : (perSecond * count) / total;
      lanes.push({
        from: rightEdge(berth),
        to: leftEdge(node),
        width: 1 + Math.min(4, Math.log2(1 + count)),
        perSecond: share,
        style: ready === 0 ? "reach" : "traffic",
      });
    }
  }
  return lanes;
}

function nodeLanes({ layout, services }: LaneSource, name: string): Lane[] {
  const node = layout.nodes.get(name);
  if (node === undefined) {
    return [];
  }
  const lanes: Lane[] = [];
  for (const [key, row] of services) {
    const berth = layout.berths.get(key);
    const share = row.nodes.find(([entry]) => entry === name);
    if (berth !== undefined && share !== undefined && lanes.length < NODE_LANES_MAX * 4) {
      lanes.push({
        from: center(berth),
        to: leftEdge(node),
        width: 1 + Math.min(3, Math.log2(1 + share[2])),
        perSecond: null,
        style: "reach",
      });
    }
  }
  return lanes;
}
