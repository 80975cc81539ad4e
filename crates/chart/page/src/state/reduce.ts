// Changes of the state. Pure: the same state and action give the same result.

import type { Change, Finding, History, ServiceDetail, Session, Snapshot, Trace } from "../contract.ts";
import {
  type Cluster,
  type Connection,
  FILTER_NONE,
  type Filter,
  type ListTab,
  type Selection,
  type ServiceKey,
  STATE_INITIAL,
  type State,
  serviceKey,
  type TraceForm,
} from "./state.ts";

export type Action =
  | { kind: "session"; session: Session | null }
  | { kind: "snapshot"; snapshot: Snapshot }
  | { kind: "change"; change: Change }
  | { kind: "connection"; connection: Connection }
  | { kind: "past"; time: string }
  | { kind: "pastSnapshot"; time: string; snapshot: Snapshot }
  | { kind: "pastFailed"; time: string; message: string }
  | { kind: "live" }
  | { kind: "history"; history: History }
  | { kind: "findings"; findings: Finding[] }
  | { kind: "detail"; key: ServiceKey; detail: ServiceDetail }
  | { kind: "detailFailed"; key: ServiceKey; message: string }
  | { kind: "filter"; filter: Partial<Filter> }
  | { kind: "filterReset" }
  | { kind: "select"; selection: Selection }
  | { kind: "tab"; tab: ListTab }
  | { kind: "open"; namespace: string; isOpen: boolean }
  | { kind: "traceOpen"; isOpen: boolean; form?: Partial<TraceForm> }
  | { kind: "traceRunning"; form: TraceForm }
  | { kind: "traceFailed"; message: string }
  | { kind: "traceDone"; trace: Trace }
  | { kind: "help"; isOpen: boolean };

export function reduce(state: State, action: Action): State {
  switch (action.kind) {
    case "session":
      return { ...state, session: action.session };
    case "snapshot":
      return { ...state, cluster: clusterOf(action.snapshot) };
    case "change":
      return state.cluster === null ? state : { ...state, cluster: applyChange(state.cluster, action.change) };
    case "connection":
      return action.connection.kind === "signedOut"
        ? signedOut(state, action.connection)
        : { ...state, connection: action.connection };
    case "past":
      return { ...state, past: { time: action.time, cluster: state.past?.cluster ?? null, message: "" } };
    case "pastSnapshot":
      // A later choice makes an earlier response stale.
      return state.past?.time === action.time
        ? { ...state, past: { time: action.time, cluster: clusterOf(action.snapshot), message: "" } }
        : state;
    case "pastFailed":
      return state.past?.time === action.time ? { ...state, past: { ...state.past, message: action.message } } : state;
    case "live":
      return { ...state, past: null };
    case "history":
      return { ...state, history: action.history };
    case "findings":
      return { ...state, findings: withDocumentation(action.findings, []) };
    case "detail":
      return isSelected(state, action.key)
        ? { ...state, detail: { kind: "loaded", key: action.key, detail: documented(action.detail, state.findings) } }
        : state;
    case "detailFailed":
      return isSelected(state, action.key)
        ? { ...state, detail: { kind: "failed", key: action.key, message: action.message } }
        : state;
    case "filter":
      return { ...state, filter: { ...state.filter, ...action.filter } };
    case "filterReset":
      return { ...state, filter: FILTER_NONE };
    case "select":
      return select(state, action.selection);
    case "tab":
      return { ...state, tab: action.tab };
    case "open":
      return { ...state, opened: withMember(state.opened, action.namespace, action.isOpen) };
    default:
      return reduceDialogs(state, action);
  }
}

function reduceDialogs(state: State, action: Action): State {
  const { trace } = state;
  switch (action.kind) {
    case "traceOpen": {
      const form = { ...trace.form, ...action.form };
      return {
        ...state,
        trace: { ...trace, isOpen: action.isOpen, form, result: action.isOpen ? trace.result : { kind: "none" } },
      };
    }
    case "traceRunning":
      return { ...state, trace: { isOpen: true, form: action.form, result: { kind: "running" } } };
    case "traceFailed":
      return { ...state, trace: { ...trace, result: { kind: "failed", message: action.message } } };
    case "traceDone":
      return { ...state, trace: { ...trace, result: { kind: "done", trace: action.trace } } };
    case "help":
      return { ...state, isHelpOpen: action.isOpen };
    default:
      return state;
  }
}

function documented(detail: ServiceDetail, known: Finding[]): ServiceDetail {
  return { ...detail, findings: withDocumentation(detail.findings, known) };
}

/** The server sends the documentation of a code once. Every finding of the code gets it. */
export function withDocumentation(findings: Finding[], known: Finding[]): Finding[] {
  const texts = new Map<string, string>();
  for (const { code, documentation } of [...known, ...findings]) {
    if (documentation !== "") {
      texts.set(code, documentation);
    }
  }
  return findings.map((finding) => ({ ...finding, documentation: texts.get(finding.code) ?? "" }));
}

/** Signing out drops all data of the cluster. The filter and the selection stay for the next session. */
function signedOut(state: State, connection: Connection): State {
  const { filter, selection, tab } = state;
  return { ...STATE_INITIAL, connection, filter, selection, tab };
}

function isSelected(state: State, key: ServiceKey): boolean {
  return state.selection.kind === "service" && state.selection.key === key;
}

function isLoaded(state: State, key: ServiceKey): boolean {
  return state.detail.kind === "loaded" && state.detail.key === key;
}

function select(state: State, selection: Selection): State {
  const next: State = { ...state, selection };
  if (selection.kind === "service") {
    const namespace = selection.key.split("/")[0] ?? "";
    next.opened = withMember(state.opened, namespace, true);
    next.detail = isLoaded(state, selection.key) ? state.detail : { kind: "loading", key: selection.key };
  } else {
    next.detail = { kind: "none" };
    if (selection.kind === "namespace") {
      next.opened = withMember(state.opened, selection.name, true);
    }
  }
  // A result on the map would hide the newly chosen object.
  if (state.trace.isOpen) {
    next.trace = { ...state.trace, isOpen: false, result: { kind: "none" } };
  }
  return next;
}

function withMember(set: ReadonlySet<string>, member: string, isMember: boolean): ReadonlySet<string> {
  if (set.has(member) === isMember) {
    return set;
  }
  const next = new Set(set);
  if (isMember) {
    next.add(member);
  } else {
    next.delete(member);
  }
  return next;
}

export function clusterOf(snapshot: Snapshot): Cluster {
  return {
    revision: snapshot.revision,
    time: snapshot.time,
    name: snapshot.cluster,
    services: new Map(snapshot.services.map((row) => [serviceKey(row), row])),
    nodes: new Map(snapshot.nodes.map((node) => [node.name, node])),
    totals: snapshot.totals,
    trafficKnown: snapshot.trafficKnown,
    historyFrom: snapshot.historyFrom,
  };
}

/** Changes that the snapshot already contains are ignored. */
export function applyChange(cluster: Cluster, change: Change): Cluster {
  if (change.revision <= cluster.revision) {
    return cluster;
  }
  return {
    ...cluster,
    revision: change.revision,
    time: change.time,
    totals: change.totals,
    trafficKnown: cluster.trafficKnown || change.services.some((row) => row.traffic !== null),
    services: merged(
      cluster.services,
      change.services.map((row) => [serviceKey(row), row]),
      change.removedServices,
    ),
    nodes: merged(
      cluster.nodes,
      change.nodes.map((node) => [node.name, node]),
      change.removedNodes,
    ),
  };
}

function merged<V>(map: ReadonlyMap<string, V>, changed: [string, V][], removed: string[]): ReadonlyMap<string, V> {
  if (changed.length === 0 && removed.length === 0) {
    return map;
  }
  const next = new Map(map);
  for (const [key, value] of changed) {
    next.set(key, value);
  }
  for (const key of removed) {
    next.delete(key);
  }
  return next;
}
