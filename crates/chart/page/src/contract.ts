// JSON that the server of the chart sends. `crates/chart/src` writes it; both sides change together.

export type Severity = "error" | "warning" | "info";
/** `idle`: the Service expects no endpoints. */
export type Health = "error" | "warning" | "ok" | "idle";
export type ServiceType = "ClusterIP" | "NodePort" | "LoadBalancer" | "ExternalName";
export type FrontendKind = "clusterIP" | "nodePort" | "externalIP" | "loadBalancer" | "externalName";
export type ClientKind = "pod" | "node" | "external";

export interface Session {
  user: string;
  authentication: "token" | "local";
}

export interface Totals {
  services: number;
  endpointsReady: number;
  endpoints: number;
  errors: number;
  warnings: number;
  connections: number | null;
  connectionsPerSecond: number | null;
}

export interface NodeRow {
  name: string;
  zone: string;
  ready: boolean;
  schedulable: boolean;
  addresses: string[];
  endpoints: number;
  health: Health;
}

export interface Traffic {
  connections: number;
  connectionsPerSecond: number;
  /** `null` if no node counts bytes. */
  bytesPerSecond: number | null;
  /** Unanswered or refused connections of an interval. */
  failed: number;
}

export interface Frontend {
  kind: FrontendKind;
  /** Empty for a node port. */
  address: string;
  port: number;
  protocol: "TCP" | "UDP" | "SCTP";
  portName: string;
}

/** Endpoints on a node; the name is empty for endpoints without a node. */
export type NodeShare = [node: string, ready: number, total: number];

export interface ServiceRow {
  namespace: string;
  name: string;
  type: ServiceType;
  headless: boolean;
  frontends: Frontend[];
  ready: number;
  serving: number;
  terminating: number;
  total: number;
  nodes: NodeShare[];
  health: Health;
  findings: [errors: number, warnings: number, infos: number];
  traffic: Traffic | null;
}

export interface Snapshot {
  revision: number;
  time: string;
  cluster: string;
  nodes: NodeRow[];
  services: ServiceRow[];
  totals: Totals;
  /** The flows of at least one node are read. */
  trafficKnown: boolean;
  historyFrom: string | null;
}

export interface EndpointRow {
  address: string;
  ports: string;
  pod: string;
  node: string;
  zone: string;
  ready: boolean;
  serving: boolean;
  terminating: boolean;
  traffic: Traffic | null;
}

export interface ClientRow {
  address: string;
  kind: ClientKind;
  name: string;
  node: string;
  traffic: Traffic;
  endpoints: [address: string, connections: number][];
}

export interface ObjectName {
  kind: string;
  namespace: string;
  name: string;
}

export interface Finding {
  code: string;
  severity: Severity;
  object: ObjectName;
  field: string;
  message: string;
  remedy: string;
  title: string;
  /** Markdown; empty except in the first finding of each code. */
  documentation: string;
  services: string[];
}

export interface ServiceDetail {
  row: ServiceRow;
  selector: Record<string, string>;
  labels: Record<string, string>;
  policies: {
    internalTrafficPolicy: string;
    externalTrafficPolicy: string;
    sessionAffinity: string;
    trafficDistribution: string;
  };
  endpoints: EndpointRow[];
  endpointsOmitted: number;
  clients: ClientRow[];
  findings: Finding[];
}

export interface Change {
  revision: number;
  time: string;
  services: ServiceRow[];
  removedServices: string[];
  nodes: NodeRow[];
  removedNodes: string[];
  totals: Totals;
}

export interface HistorySample {
  time: string;
  errors: number;
  warnings: number;
  endpointsReady: number;
  endpoints: number;
  connections: number | null;
}

export interface History {
  stepSeconds: number;
  samples: HistorySample[];
}

/** JSON of `portolan trace -o json`; docs/trace.md describes the fields. */
export interface Trace {
  verdict: string;
  reason: string;
  destination: { url: string; protocol: string; host: string; port: number };
  client: { kind: string; namespace: string; name: string; addresses: string[]; node: string };
  name: TraceName | null;
  paths: TracePath[];
  findings: TraceFinding[];
}

export interface TraceName {
  resolver: { nameServers: string; searches: string[]; ndots: number; reason: string };
  tried: { name: string; answer: string; addresses?: string[]; aliases?: string[] }[];
}

export interface TraceStep {
  step: string;
  result: string;
  object: ObjectName | null;
  field: string;
}

export interface TraceEndpoint {
  address: string;
  /** `null` if the EndpointSlice does not have the port. */
  port: number | null;
  /** `namespace/name`, or empty. */
  pod: string;
  node: string;
  zone: string;
  ready: boolean;
  serving: boolean;
  terminating: boolean;
}

export interface TracePath {
  nodes: string[];
  addresses: string[];
  source: string | null;
  steps: TraceStep[];
  endpoints: (TraceEndpoint & { chance: number; masquerade: boolean })[];
  excluded: (TraceEndpoint & { reason: string; object: ObjectName; field: string })[];
  affinitySeconds: number | null;
  verdict: string;
  reason: string;
}

/** Finding as `portolan doctor -o json` prints it, without title and documentation. */
export interface TraceFinding {
  code: string;
  severity: Severity;
  object: ObjectName;
  field: string;
  message: string;
  remedy: string;
}
