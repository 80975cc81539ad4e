// Filters and the rows of the lists, from the cluster and the filter.

import type { Health, NodeRow, ServiceRow } from "../contract.ts";
import { FILTER_NONE, type Filter, serviceKey } from "./state.ts";

export const ZONE_PREFIX = "zone:";

/** Healths, the most urgent one first. */
export const HEALTHS: Health[] = ["error", "warning", "ok", "idle"];

export const HEALTH_TITLES: Record<Health, string> = { error: "Error", warning: "Warning", ok: "OK", idle: "Idle" };

export function isFiltered(filter: Filter): boolean {
  return (Object.keys(FILTER_NONE) as (keyof Filter)[]).some((key) => filter[key] !== FILTER_NONE[key]);
}

/** Returns a test for Services. `nodes` maps places to zones. */
export function serviceTest(filter: Filter, nodes: ReadonlyMap<string, NodeRow>): (row: ServiceRow) => boolean {
  const words = filter.text
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== "");
  const zone = filter.place.startsWith(ZONE_PREFIX) ? filter.place.slice(ZONE_PREFIX.length) : null;
  const isAtPlace = (row: ServiceRow) =>
    row.nodes.some(([node]) => (zone === null ? node === filter.place : nodes.get(node)?.zone === zone));
  return (row) =>
    (filter.namespace === "" || row.namespace === filter.namespace) &&
    (filter.type === "" || row.type === filter.type) &&
    (filter.health === "" || row.health === filter.health) &&
    (!filter.onlyWithFindings || row.findings.some((count) => count > 0)) &&
    (filter.place === "" || isAtPlace(row)) &&
    words.every((word) => matchesWord(row, word));
}

/** A word is part of the name, the namespace, a frontend's address, or a port. */
function matchesWord(row: ServiceRow, word: string): boolean {
  return (
    `${row.namespace}/${row.name}`.toLowerCase().includes(word) ||
    row.frontends.some(
      (frontend) =>
        frontend.address.toLowerCase().includes(word) ||
        String(frontend.port) === word ||
        frontend.portName.toLowerCase() === word,
    )
  );
}

/** Services of a namespace, sorted by name. */
export interface NamespaceGroup {
  name: string;
  services: ServiceRow[];
  health: Health;
  healths: Record<Health, number>;
  connectionsPerSecond: number | null;
}

export function byText(left: string, right: string): number {
  return left < right ? -1 : left > right ? 1 : 0;
}

export function worstHealth(healths: Iterable<Health>): Health {
  let worst = HEALTHS.length - 1;
  for (const health of healths) {
    worst = Math.min(worst, HEALTHS.indexOf(health));
  }
  return HEALTHS[worst] ?? "idle";
}

/** Groups Services by namespace, both sorted by name. */
export function groupByNamespace(services: Iterable<ServiceRow>): NamespaceGroup[] {
  const groups = new Map<string, ServiceRow[]>();
  for (const row of services) {
    const group = groups.get(row.namespace);
    if (group === undefined) {
      groups.set(row.namespace, [row]);
    } else {
      group.push(row);
    }
  }
  return [...groups].map(([name, rows]) => namespaceGroup(name, rows)).sort((left, right) => byText(left.name, right.name));
}

function namespaceGroup(name: string, services: ServiceRow[]): NamespaceGroup {
  const healths: Record<Health, number> = { error: 0, warning: 0, ok: 0, idle: 0 };
  let connectionsPerSecond: number | null = null;
  for (const row of services) {
    healths[row.health] += 1;
    if (row.traffic !== null) {
      connectionsPerSecond = (connectionsPerSecond ?? 0) + row.traffic.connectionsPerSecond;
    }
  }
  services.sort((left, right) => byText(left.name, right.name));
  return { name, services, health: worstHealth(services.map((row) => row.health)), healths, connectionsPerSecond };
}

/** Row of a tree: a parent with its size, or a child. */
export type TreeRow<P, C> =
  | { kind: "parent"; id: string; value: P; isOpen: boolean; size: number; position: number }
  | { kind: "child"; id: string; value: C; size: number; position: number };

export type ServiceTreeRow = TreeRow<NamespaceGroup, ServiceRow>;

export function serviceTreeRows(groups: NamespaceGroup[], isOpen: (namespace: string) => boolean): ServiceTreeRow[] {
  const rows: ServiceTreeRow[] = [];
  groups.forEach((group, index) => {
    const opened = isOpen(group.name);
    rows.push({ kind: "parent", id: group.name, value: group, isOpen: opened, size: groups.length, position: index + 1 });
    if (opened) {
      group.services.forEach((row, child) => {
        rows.push({ kind: "child", id: serviceKey(row), value: row, size: group.services.length, position: child + 1 });
      });
    }
  });
  return rows;
}

/** Nodes of a zone, sorted by name. */
export interface ZoneGroup {
  name: string;
  nodes: NodeRow[];
  health: Health;
}

export function groupByZone(nodes: Iterable<NodeRow>): ZoneGroup[] {
  const zones = new Map<string, NodeRow[]>();
  for (const node of nodes) {
    zones.set(node.zone, [...(zones.get(node.zone) ?? []), node]);
  }
  return [...zones]
    .map(([name, rows]) => ({
      name,
      nodes: rows.sort((left, right) => byText(left.name, right.name)),
      health: worstHealth(rows.map((node) => node.health)),
    }))
    .sort((left, right) => byText(left.name, right.name));
}

export function nodeTreeRows(zones: ZoneGroup[]): TreeRow<ZoneGroup, NodeRow>[] {
  const rows: TreeRow<ZoneGroup, NodeRow>[] = [];
  zones.forEach((zone, index) => {
    rows.push({
      kind: "parent",
      id: `${ZONE_PREFIX}${zone.name}`,
      value: zone,
      isOpen: true,
      size: zones.length,
      position: index + 1,
    });
    zone.nodes.forEach((node, child) => {
      rows.push({ kind: "child", id: node.name, value: node, size: zone.nodes.length, position: child + 1 });
    });
  });
  return rows;
}

export function servicesOn(services: Iterable<ServiceRow>, node: string): ServiceRow[] {
  return [...services]
    .filter((row) => row.nodes.some(([name]) => name === node))
    .sort((left, right) => byText(serviceKey(left), serviceKey(right)));
}
