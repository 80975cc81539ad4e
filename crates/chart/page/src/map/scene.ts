// Content of the cluster's map.

import type { NodeRow, ServiceRow } from "../contract.ts";
import type { NamespaceGroup } from "../state/filter.ts";
import type { Selection, ServiceKey } from "../state/state.ts";
import type { MapLayout } from "./layout.ts";

export interface ClusterScene {
  layout: MapLayout;
  services: ReadonlyMap<ServiceKey, ServiceRow>;
  nodes: ReadonlyMap<string, NodeRow>;
  groups: ReadonlyMap<string, NamespaceGroup>;
  /** Services that the filter matches, or that the chosen finding concerns; `null` for all. */
  matches: ReadonlySet<ServiceKey> | null;
  selection: Selection;
  reach: { outside: number; inside: number };
}
