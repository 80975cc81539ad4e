// State of the page. `reduce` is the only place that changes it.

import type {
  Finding,
  Health,
  History,
  NodeRow,
  ServiceDetail,
  ServiceRow,
  ServiceType,
  Session,
  Totals,
  Trace,
} from "../contract.ts";

/** `namespace/name` of a Service. */
export type ServiceKey = string;

export function serviceKey(row: { namespace: string; name: string }): ServiceKey {
  return `${row.namespace}/${row.name}`;
}

/** Cluster at one revision. Maps are replaced, never changed in place. */
export interface Cluster {
  revision: number;
  time: string;
  name: string;
  services: ReadonlyMap<ServiceKey, ServiceRow>;
  nodes: ReadonlyMap<string, NodeRow>;
  totals: Totals;
  trafficKnown: boolean;
  historyFrom: string | null;
}

export type Connection =
  | { kind: "loading" }
  | { kind: "live" }
  | { kind: "lost"; message: string; retryAt: number }
  | { kind: "signedOut"; message: string };

export interface Filter {
  text: string;
  namespace: string;
  type: ServiceType | "";
  health: Health | "";
  /** Name of a node, or `zone:NAME`. */
  place: string;
  onlyWithFindings: boolean;
}

export const FILTER_NONE: Filter = { text: "", namespace: "", type: "", health: "", place: "", onlyWithFindings: false };

export type Selection =
  | { kind: "cluster" }
  | { kind: "namespace"; name: string }
  | { kind: "service"; key: ServiceKey }
  | { kind: "node"; name: string }
  | { kind: "finding"; id: string };

export interface TraceForm {
  url: string;
  from: string;
}

export type TraceResult =
  | { kind: "none" }
  | { kind: "running" }
  | { kind: "failed"; message: string }
  | { kind: "done"; trace: Trace };

export type DetailState =
  | { kind: "none" }
  | { kind: "loading"; key: ServiceKey }
  | { kind: "failed"; key: ServiceKey; message: string }
  | { kind: "loaded"; key: ServiceKey; detail: ServiceDetail };

export type ListTab = "services" | "nodes" | "findings";

export interface State {
  connection: Connection;
  session: Session | null;
  /** Present state; `past` replaces it on the page while a past moment is chosen. */
  cluster: Cluster | null;
  past: { time: string; cluster: Cluster | null; message: string } | null;
  history: History | null;
  findings: Finding[];
  detail: DetailState;
  filter: Filter;
  selection: Selection;
  tab: ListTab;
  opened: ReadonlySet<string>;
  trace: { isOpen: boolean; form: TraceForm; result: TraceResult };
  isHelpOpen: boolean;
}

export const STATE_INITIAL: State = {
  connection: { kind: "loading" },
  session: null,
  cluster: null,
  past: null,
  history: null,
  findings: [],
  detail: { kind: "none" },
  filter: FILTER_NONE,
  selection: { kind: "cluster" },
  tab: "services",
  opened: new Set(),
  trace: { isOpen: false, form: { url: "", from: "" }, result: { kind: "none" } },
  isHelpOpen: false,
};

/** Identity of a finding: code, object and field. */
export function findingId(finding: Pick<Finding, "code" | "object" | "field">): string {
  const { kind, namespace, name } = finding.object;
  return [finding.code, kind, namespace, name, finding.field].join("|");
}

/** Cluster on the page: the past one if a past moment is chosen and loaded. */
export function shownCluster(state: State): Cluster | null {
  return state.past?.cluster ?? state.cluster;
}
