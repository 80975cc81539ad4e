// Geography of the cluster: clients at the left, namespaces as districts with a berth for each Service in the middle, and
// zones with their nodes at the right. Places are stable: a Service keeps its berth while its namespace does not outgrow
// its district.

import { hierarchy, treemap, treemapSquarify } from "d3-hierarchy";
import type { NamespaceGroup, ZoneGroup } from "../state/filter.ts";
import { type ServiceKey, serviceKey } from "../state/state.ts";
import { clamp, contains, type Point, type Rect, type Size } from "./geometry.ts";

export interface District extends Rect {
  name: string;
  headerHeight: number;
  /** Area of the berths. */
  inner: Rect;
  columns: number;
  cell: Size;
  /** Service of each berth; `null` is a free berth. */
  slots: (ServiceKey | null)[];
}

export interface ZoneBlock extends Rect {
  name: string;
  headerHeight: number;
  nodes: (Rect & { name: string })[];
}

export interface MapLayout {
  size: Size;
  /** Column of the clients. */
  sea: Rect;
  /** Column of the nodes; `null` without nodes. */
  land: Rect | null;
  districts: District[];
  berths: ReadonlyMap<ServiceKey, Rect>;
  zones: ZoneBlock[];
  nodes: ReadonlyMap<string, Rect>;
}

const MARGIN = 14;
const DISTRICT_GAP = 8;
const CELL_MAX: Size = { width: 250, height: 104 };
const NODE_MAX: Size = { width: 260, height: 34 };
/** Below this width, the column of the clients has no boxes. */
const SEA_BOXES_FROM = 600;
const LAND_HEADER = 34;
const ZONE_PADDING = 6;
/** Above this number, berths are nearly square, which fills the districts best. */
const WIDE_BERTHS_MAX = 250;

export function layoutMap(groups: NamespaceGroup[], zones: ZoneGroup[], size: Size, previous: MapLayout | null): MapLayout {
  const seaWidth = size.width < SEA_BOXES_FROM ? 56 : clamp(size.width * 0.165, 124, 200);
  const landWidth = zones.length === 0 ? 0 : clamp(size.width * 0.18, 118, 260);
  const height = size.height - 2 * MARGIN;
  const sea = { x: MARGIN, y: MARGIN, width: seaWidth, height };
  const land = zones.length === 0 ? null : { x: size.width - MARGIN - landWidth, y: MARGIN, width: landWidth, height };
  const left = sea.x + seaWidth + MARGIN;
  const harbour = { x: left, y: MARGIN, width: Math.max(120, size.width - left - 2 * MARGIN - landWidth), height };
  const districts = layoutDistricts(groups, harbour, previous);
  const blocks = land === null ? [] : layoutZones(zones, land);
  const lowest = blocks.at(-1);
  if (land !== null && lowest !== undefined) {
    land.height = Math.min(land.height, lowest.y + lowest.height + 8 - land.y);
  }
  return {
    size,
    sea,
    land,
    districts,
    berths: new Map(districts.flatMap(berthsOf)),
    zones: blocks,
    nodes: new Map(blocks.flatMap((block) => block.nodes.map((node): [string, Rect] => [node.name, node]))),
  };
}

/** Berths of a district for `count` Services: at most a quarter is free, so that few additions move a district. */
export function capacity(count: number, previous: number): number {
  if (count <= previous && count * 2 >= previous) {
    return previous;
  }
  const step = Math.max(1, 2 ** Math.floor(Math.log2(Math.max(count, 1))) / 4);
  return Math.ceil(Math.max(count, 1) / step) * step;
}

/** Services keep their slots; new ones take the first free slots, in the order of names. */
export function assignSlots(keys: ServiceKey[], size: number, previous: (ServiceKey | null)[]): (ServiceKey | null)[] {
  const present = new Set(keys);
  const slots: (ServiceKey | null)[] = new Array(size).fill(null);
  previous.slice(0, size).forEach((key, slot) => {
    if (key !== null && present.delete(key)) {
      slots[slot] = key;
    }
  });
  let free = 0;
  for (const key of keys) {
    if (present.has(key)) {
      while (slots[free] !== null && free < size) {
        free += 1;
      }
      slots[free] = key;
    }
  }
  return slots;
}

function layoutDistricts(groups: NamespaceGroup[], area: Rect, previous: MapLayout | null): District[] {
  if (groups.length === 0) {
    return [];
  }
  const before = new Map(previous?.districts.map((district) => [district.name, district]));
  const total = groups.reduce((sum, group) => sum + group.services.length, 0);
  const aspect = total <= WIDE_BERTHS_MAX ? 2.3 : 1.2;
  interface Entry {
    group: NamespaceGroup | null;
    slots: number;
    children?: Entry[];
  }
  const entries: Entry[] = groups.map((group) => ({
    group,
    slots: capacity(group.services.length, before.get(group.name)?.slots.length ?? 0),
  }));
  entries.sort((left, right) => right.slots - left.slots || ((left.group?.name ?? "") < (right.group?.name ?? "") ? -1 : 1));
  const root = hierarchy<Entry>({ group: null, slots: 0, children: entries }).sum((entry) =>
    entry.group === null ? 0 : entry.slots + 0.6,
  );
  const gap = clamp(Math.min(area.width, area.height) / Math.sqrt(groups.length) / 12, 1, DISTRICT_GAP);
  const placed = treemap<Entry>().tile(treemapSquarify.ratio(1.2)).size([area.width, area.height]).paddingInner(gap)(root);
  return placed.leaves().flatMap((leaf) => {
    const { group, slots } = leaf.data;
    if (group === null) {
      return [];
    }
    const rect = {
      x: area.x + leaf.x0,
      y: area.y + leaf.y0,
      width: Math.max(1, leaf.x1 - leaf.x0),
      height: Math.max(1, leaf.y1 - leaf.y0),
    };
    return [district(group, rect, slots, aspect, before.get(group.name)?.slots ?? [])];
  });
}

function district(group: NamespaceGroup, rect: Rect, slots: number, aspect: number, before: (ServiceKey | null)[]): District {
  const shorter = Math.min(rect.width, rect.height);
  const headerHeight = clamp(shorter * 0.17, 2, 26);
  const padding = clamp(shorter * 0.035, 0.5, 8);
  const inner = {
    x: rect.x + padding,
    y: rect.y + headerHeight,
    width: Math.max(1, rect.width - 2 * padding),
    height: Math.max(1, rect.height - headerHeight - padding),
  };
  const grid = bestGrid(inner, slots, aspect, CELL_MAX);
  return {
    ...rect,
    name: group.name,
    headerHeight,
    inner,
    ...grid,
    slots: assignSlots(group.services.map(serviceKey), slots, before),
  };
}

/** Returns the grid with the largest cells of about the aspect ratio. */
export function bestGrid(area: Size, count: number, aspect: number, cellMax: Size): { columns: number; cell: Size } {
  let best = { columns: 1, cell: { width: area.width, height: area.height / Math.max(1, count) } };
  let bestScore = 0;
  for (let columns = 1; columns <= count; columns += 1) {
    const width = area.width / columns;
    const height = area.height / Math.ceil(count / columns);
    const score = Math.min(width / aspect, height);
    if (score > bestScore) {
      bestScore = score;
      best = { columns, cell: { width: Math.min(width, cellMax.width), height: Math.min(height, cellMax.height) } };
    }
  }
  return best;
}

export function slotRect(place: District, slot: number): Rect {
  const { inner, cell, columns } = place;
  return { x: inner.x + (slot % columns) * cell.width, y: inner.y + Math.floor(slot / columns) * cell.height, ...cell };
}

function berthsOf(place: District): [ServiceKey, Rect][] {
  return place.slots.flatMap((key, slot): [ServiceKey, Rect][] => (key === null ? [] : [[key, slotRect(place, slot)]]));
}

/** Zones share the height of the column by their nodes; none is higher than its nodes need. */
function layoutZones(zones: ZoneGroup[], land: Rect): ZoneBlock[] {
  const gap = clamp(land.height / zones.length / 10, 1, 10);
  const padding = 8;
  const weights = zones.map((zone) => Math.sqrt(zone.nodes.length) + zone.nodes.length / 8 + 0.6);
  const sum = weights.reduce((total, weight) => total + weight, 0);
  const available = land.height - LAND_HEADER - gap * (zones.length - 1) - padding;
  let y = land.y + LAND_HEADER;
  return zones.map((zone, index) => {
    const share = Math.max(1, (available * (weights[index] ?? 1)) / sum);
    const headerHeight = clamp(share * 0.2, 2, 24);
    const height = Math.min(share, headerHeight + zone.nodes.length * NODE_MAX.height + ZONE_PADDING);
    const rect = { x: land.x + padding, y, width: land.width - 2 * padding, height };
    y += height + gap;
    const inner = {
      x: rect.x + ZONE_PADDING,
      y: rect.y + headerHeight,
      width: rect.width - 2 * ZONE_PADDING,
      height: Math.max(1, height - headerHeight - ZONE_PADDING),
    };
    const { columns, cell } = bestGrid(inner, zone.nodes.length, 5, NODE_MAX);
    const nodes = zone.nodes.map((node, slot) => ({
      name: node.name,
      x: inner.x + (slot % columns) * cell.width,
      y: inner.y + Math.floor(slot / columns) * cell.height,
      ...cell,
    }));
    return { ...rect, name: zone.name, headerHeight, nodes };
  });
}

/** Object at a point of the map. */
export type MapTarget =
  | { kind: "service"; key: ServiceKey }
  | { kind: "namespace"; name: string }
  | { kind: "node"; name: string };

export function targetAt(layout: MapLayout, point: Point): MapTarget | null {
  const place = layout.districts.find((entry) => contains(entry, point));
  if (place !== undefined) {
    const column = Math.floor((point.x - place.inner.x) / place.cell.width);
    const row = Math.floor((point.y - place.inner.y) / place.cell.height);
    const isBerth = column >= 0 && column < place.columns && row >= 0;
    const key = isBerth ? place.slots[row * place.columns + column] : null;
    return key === null || key === undefined ? { kind: "namespace", name: place.name } : { kind: "service", key };
  }
  for (const zone of layout.zones) {
    const node = contains(zone, point) ? zone.nodes.find((entry) => contains(entry, point)) : undefined;
    if (node !== undefined) {
      return { kind: "node", name: node.name };
    }
  }
  return null;
}
