// Deep links: the part of the state that the hash of the address holds.

import type { Health, ServiceType } from "../contract.ts";
import type { Filter, Selection, State, TraceForm } from "./state.ts";

export interface Link {
  selection: Selection;
  filter: Filter;
  /** RFC 3339, or empty for the present. */
  time: string;
  trace: TraceForm | null;
}

const TYPES: (ServiceType | "")[] = ["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"];
const HEALTHS: (Health | "")[] = ["error", "warning", "ok", "idle"];

/** Longest text that a link gives to a field. */
const VALUE_CHARACTERS_MAX = 1024;

export function parseHash(hash: string): Link {
  const parameters = new URLSearchParams(hash.replace(/^#/, ""));
  const value = (name: string) => (parameters.get(name) ?? "").slice(0, VALUE_CHARACTERS_MAX);
  const oneOf = <T extends string>(name: string, allowed: T[]): T | "" => allowed.find((entry) => entry === value(name)) ?? "";
  const filter: Filter = {
    text: value("q"),
    namespace: value("in"),
    type: oneOf("type", TYPES),
    health: oneOf("health", HEALTHS),
    place: value("at"),
    onlyWithFindings: value("findings") === "only",
  };
  const time = Number.isNaN(Date.parse(value("time"))) ? "" : value("time");
  const trace = parameters.has("trace") ? { url: value("trace"), from: value("from") } : null;
  return { selection: parseSelection(value), filter, time, trace };
}

function parseSelection(value: (name: string) => string): Selection {
  const service = value("service");
  if (/^[^/]+\/[^/]+$/.test(service)) {
    return { kind: "service", key: service };
  }
  const [namespace, node, finding] = [value("namespace"), value("node"), value("finding")];
  if (namespace !== "") {
    return { kind: "namespace", name: namespace };
  }
  if (node !== "") {
    return { kind: "node", name: node };
  }
  return finding === "" ? { kind: "cluster" } : { kind: "finding", id: finding };
}

export function formatHash(state: Pick<State, "selection" | "filter" | "past" | "trace">): string {
  const parameters = new URLSearchParams();
  const set = (name: string, value: string) => {
    if (value !== "") {
      parameters.set(name, value);
    }
  };
  const { selection, filter, past, trace } = state;
  if (selection.kind === "service") {
    set("service", selection.key);
  } else if (selection.kind === "finding") {
    set("finding", selection.id);
  } else if (selection.kind !== "cluster") {
    set(selection.kind, selection.name);
  }
  set("q", filter.text);
  set("in", filter.namespace);
  set("type", filter.type);
  set("health", filter.health);
  set("at", filter.place);
  set("findings", filter.onlyWithFindings ? "only" : "");
  set("time", past?.time ?? "");
  if (trace.isOpen && trace.result.kind !== "none") {
    parameters.set("trace", trace.form.url);
    set("from", trace.form.from);
  }
  const text = parameters.toString().replaceAll("%2F", "/").replaceAll("%3A", ":").replaceAll("%7C", "|");
  return text === "" ? "" : `#${text}`;
}

/** Secret of the address that `portolan chart` prints for a session on its host, or empty. */
export function loginSecret(hash: string): string {
  return new URLSearchParams(hash.replace(/^#/, "")).get("login") ?? "";
}
