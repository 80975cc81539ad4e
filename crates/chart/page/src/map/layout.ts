// Layout of the map: clients at the left, namespaces as areas with a cell for each Service in the middle, and
// zones with their nodes at the right. Positions are stable: a Service keeps its cell while its namespace does not outgrow
// its area.

import { hierarchy, treemap, treemapSquarify } from "d3-hierarchy";
import type { NamespaceGroup, ZoneGroup } from "../state/filter.ts";
import { type ServiceKey, serviceKey } from "../state/state.ts";
import { clamp, contains, type Point, type Rect, type Size } from "./geometry.ts";

export interface NamespaceArea extends Rect {
  name: string;
  headerHeight: number;
  /** Area of the cells. */
  inner: Rect;
  columns: number;
  cell: Size;
  /** Service of each cell; `null` is a free cell. */
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
  clientColumn: Rect;
  /** Column of the nodes; `null` without nodes. */
  nodeColumn: Rect | null;
  namespaces: NamespaceArea[];
  cells: ReadonlyMap<ServiceKey, Rect>;
  zones: ZoneBlock[];
  nodes: ReadonlyMap<string, Rect>;
}

const MARGIN = 14;
const NAMESPACE_GAP = 8;
const CELL_MAX: Size = { width: 250, height: 104 };
const NODE_MAX: Size = { width: 260, height: 34 };
/** Below this width, the column of the clients has no boxes. */
const CLIENT_BOXES_FROM = 600;
const NODE_COLUMN_HEADER = 34;
const ZONE_PADDING = 6;
/** Above this number, cells are nearly square, which fills the areas best. */
const WIDE_CELLS_MAX = 250;

export function layoutMap(groups: NamespaceGroup[], zones: ZoneGroup[], size: Size, previous: MapLayout | null): MapLayout {
  const clientColumnWidth = size.width < CLIENT_BOXES_FROM ? 56 : clamp(size.width * 0.165, 124, 200);
  const nodeColumnWidth = zones.length === 0 ? 0 : clamp(size.width * 0.18, 118, 260);
  const height = size.height - 2 * MARGIN;
  const clientColumn = { x: MARGIN, y: MARGIN, width: clientColumnWidth, height };
  const nodeColumn =
    zones.length === 0 ? null : { x: size.width - MARGIN - nodeColumnWidth, y: MARGIN, width: nodeColumnWidth, height };
  const left = clientColumn.x + clientColumnWidth + MARGIN;
  const namespaceColumn = { x: left, y: MARGIN, width: Math.max(120, size.width - left - 2 * MARGIN - nodeColumnWidth), height };
  const namespaces = layoutNamespaces(groups, namespaceColumn, previous);
  const blocks = nodeColumn === null ? [] : layoutZones(zones, nodeColumn);
  const lowest = blocks.at(-1);
  if (nodeColumn !== null && lowest !== undefined) {
    nodeColumn.height = Math.min(nodeColumn.height, lowest.y + lowest.height + 8 - nodeColumn.y);
  }
  return {
    size,
    clientColumn,
    nodeColumn,
    namespaces,
    cells: new Map(namespaces.flatMap(cellsOf)),
    zones: blocks,
    nodes: new Map(blocks.flatMap((block) => block.nodes.map((node): [string, Rect] => [node.name, node]))),
  };
}

/** Cells of a namespace for `count` Services: at most a quarter is free, so that few additions move a namespace. */
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

function layoutNamespaces(groups: NamespaceGroup[], area: Rect, previous: MapLayout | null): NamespaceArea[] {
  if (groups.length === 0) {
    return [];
  }
  const before = new Map(previous?.namespaces.map((area) => [area.name, area]));
  const total = groups.reduce((sum, group) => sum + group.services.length, 0);
  const aspect = total <= WIDE_CELLS_MAX ? 2.3 : 1.2;
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
  const gap = clamp(Math.min(area.width, area.height) / Math.sqrt(groups.length) / 12, 1, NAMESPACE_GAP);
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
    return [namespaceArea(group, rect, slots, aspect, before.get(group.name)?.slots ?? [])];
  });
}

function namespaceArea(
  group: NamespaceGroup,
  rect: Rect,
  slots: number,
  aspect: number,
  before: (ServiceKey | null)[],
): NamespaceArea {
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

export function slotRect(area: NamespaceArea, slot: number): Rect {
  const { inner, cell, columns } = area;
  return { x: inner.x + (slot % columns) * cell.width, y: inner.y + Math.floor(slot / columns) * cell.height, ...cell };
}

function cellsOf(area: NamespaceArea): [ServiceKey, Rect][] {
  return area.slots.flatMap((key, slot): [ServiceKey, Rect][] => (key === null ? [] : [[key, slotRect(area, slot)]]));
}

/** Zones share the height of the column by their nodes; none is higher than its nodes need. */
function layoutZones(zones: ZoneGroup[], nodeColumn: Rect): ZoneBlock[] {
  const gap = clamp(nodeColumn.height / zones.length / 10, 1, 10);
  const padding = 8;
  const weights = zones.map((zone) => Math.sqrt(zone.nodes.length) + zone.nodes.length / 8 + 0.6);
  const sum = weights.reduce((total, weight) => total + weight, 0);
  const available = nodeColumn.height - NODE_COLUMN_HEADER - gap * (zones.length - 1) - padding;
  let y = nodeColumn.y + NODE_COLUMN_HEADER;
  return zones.map((zone, index) => {
    const share = Math.max(1, (available * (weights[index] ?? 1)) / sum);
    const headerHeight = clamp(share * 0.2, 2, 24);
    const height = Math.min(share, headerHeight + zone.nodes.length * NODE_MAX.height + ZONE_PADDING);
    const rect = { x: nodeColumn.x + padding, y, width: nodeColumn.width - 2 * padding, height };
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
  const area = layout.namespaces.find((entry) => contains(entry, point));
  if (area !== undefined) {
    const column = Math.floor((point.x - area.inner.x) / area.cell.width);
    const row = Math.floor((point.y - area.inner.y) / area.cell.height);
    const isCell = column >= 0 && column < area.columns && row >= 0;
    const key = isCell ? area.slots[row * area.columns + column] : null;
    return key === null || key === undefined ? { kind: "namespace", name: area.name } : { kind: "service", key };
  }
  for (const zone of layout.zones) {
    const node = contains(zone, point) ? zone.nodes.find((entry) => contains(entry, point)) : undefined;
    if (node !== undefined) {
      return { kind: "node", name: node.name };
    }
  }
  return null;
}
