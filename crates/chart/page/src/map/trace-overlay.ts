// Way of a traced connection on the diagram of a Service, and a diagram of its own for other destinations.

import type { EndpointRow, Frontend, Health, ServiceDetail, ServiceRow, Trace, TracePath } from "../contract.ts";
import { hostAndPort, percent } from "../text/format.ts";
import { type Box, type Diagram, endpointId, extentOf, frontendId, type Line } from "./diagram.ts";

export function verdictHealth(verdict: string): Health {
  if (verdict === "reaches") {
    return "ok";
  }
  return verdict === "leaves the cluster" || verdict === "not a Service" ? "idle" : "error";
}

/** `namespace/name` of the Service that a trace decides about, or `null`. */
export function tracedService(trace: Trace): string | null {
  const objects = trace.paths.flatMap((path) => path.steps.map((step) => step.object));
  const service = objects.find((object) => object?.kind === "Service");
  return service === undefined || service === null ? null : `${service.namespace}/${service.name}`;
}

export function clientTitle(trace: Trace): string {
  const { kind, namespace, name, addresses } = trace.client;
  if (kind === "Pod") {
    return `Pod ${namespace}/${name}`;
  }
  return kind === "Node" ? `Node ${name}` : (addresses[0] ?? "external client");
}

function clientBox(trace: Trace, y: number): Box {
  return {
    id: "trace|client",
    kind: "client",
    x: 0,
    y,
    width: 196,
    height: 44,
    title: clientTitle(trace),
    lines: [trace.client.node === "" ? "outside of the cluster" : `on ${trace.client.node}`],
    health: null,
    isTraced: true,
    isDimmed: false,
  };
}

/** Endpoints of a Service as far as a trace names them, for a diagram without the detail of the Service. */
export function detailOfTrace(row: ServiceRow, trace: Trace): ServiceDetail {
  const endpoints = new Map<string, EndpointRow>();
  for (const path of trace.paths) {
    for (const endpoint of [...path.endpoints, ...path.excluded]) {
      const { address, port, pod, node, zone, ready, serving, terminating } = endpoint;
      endpoints.set(address, { address, ports: String(port ?? ""), pod, node, zone, ready, serving, terminating, traffic: null });
    }
  }
  return {
    row,
    selector: {},
    labels: {},
    policies: { internalTrafficPolicy: "", externalTrafficPolicy: "", sessionAffinity: "", trafficDistribution: "" },
    endpoints: [...endpoints.values()],
    endpointsOmitted: 0,
    clients: [],
    findings: [],
  };
}

/** Frontend of the Service that a path uses. */
function usedFrontend(row: ServiceRow, trace: Trace, path: TracePath): Frontend | undefined {
  const { port, protocol } = trace.destination;
  const candidates = row.frontends.filter((frontend) => frontend.port === port && frontend.protocol === protocol.toUpperCase());
  return (
    candidates.find((frontend) => frontend.address !== "" && path.addresses.includes(frontend.address)) ??
    candidates.find((frontend) => frontend.kind === "nodePort") ??
    candidates[0]
  );
}

/** Adds client, frontend and endpoints of a trace. Boxes outside of the way are dimmed. */
export function addTrace(diagram: Diagram, row: ServiceRow, trace: Trace): Diagram {
  const lines: Line[] = [];
  const traced = new Set<string>(["service", "trace|client"]);
  const boxes = diagram.boxes.map((box) => ({ ...box }));
  const ids = new Set(boxes.map((box) => box.id));
  const client = clientBox(trace, 0);
  const before = boxes.filter((box) => box.kind === "client" || box.id === "clients");
  const service = boxes.find((box) => box.id === "service");
  client.y = before.length === 0 ? (service?.y ?? 0) + 10 : Math.min(...before.map((box) => box.y)) - 58;
  const label = trace.verdict === "reaches" ? "" : trace.verdict;
  for (const path of trace.paths) {
    const frontend = usedFrontend(row, trace, path);
    const entry = frontend === undefined ? "service" : frontendId(frontend);
    traced.add(entry);
    lines.push({ from: "trace|client", to: entry, width: 3, perSecond: 2, style: "trace", label });
    for (const endpoint of path.endpoints) {
      const id = ids.has(endpointId(endpoint.address)) ? endpointId(endpoint.address) : `node|${endpoint.node}`;
      if (ids.has(id) && !lines.some((line) => line.to === id && line.style === "trace")) {
        traced.add(id);
        lines.push({
          from: "service",
          to: id,
          width: 3,
          perSecond: 2 * endpoint.chance + 0.5,
          style: "trace",
          label: id.startsWith("node|") ? "" : percent(endpoint.chance),
        });
      }
    }
    for (const endpoint of path.excluded) {
      const id = endpointId(endpoint.address);
      if (ids.has(id) && !traced.has(id)) {
        lines.push({ from: "service", to: id, width: 1.5, perSecond: null, style: "excluded", label: "not used" });
      }
    }
  }
  if (trace.paths.length === 0) {
    lines.push({ from: "trace|client", to: "service", width: 3, perSecond: null, style: "trace", label });
  }
  for (const box of boxes) {
    box.isTraced = traced.has(box.id);
    box.isDimmed = !box.isTraced;
  }
  const all = [client, ...boxes];
  const lowest = Math.min(...all.map((box) => box.y));
  const titles = diagram.titles.map((title) => ({ ...title, y: Math.min(title.y, lowest - 34) }));
  const extent = extentOf([...all, ...diagram.frames, ...titles.map((title) => ({ ...title, height: 10 }))]);
  return { ...diagram, boxes: all, lines, titles, extent };
}

/** Diagram for a destination that is no Service of the cluster. */
export function traceDiagram(trace: Trace): Diagram {
  const endpoints = trace.paths.flatMap((path) => path.endpoints).slice(0, 12);
  const verdict: Box = {
    id: "verdict",
    kind: "verdict",
    x: 282,
    y: 34,
    width: 244,
    height: 62,
    title: hostAndPort(trace.destination.host, trace.destination.port),
    lines: [trace.verdict],
    health: verdictHealth(trace.verdict),
    isTraced: true,
    isDimmed: false,
  };
  const boxes: Box[] = [clientBox(trace, 43), verdict];
  const lines: Line[] = [
    {
      from: "trace|client",
      to: "verdict",
      width: 3,
      perSecond: trace.verdict === "reaches" ? 2 : null,
      style: trace.verdict === "reaches" ? "trace" : "excluded",
      label: "",
    },
  ];
  endpoints.forEach((endpoint, index) => {
    const id = `${endpointId(endpoint.address)}|${index}`;
    const { pod } = endpoint;
    boxes.push({
      id,
      kind: "endpoint",
      x: 612,
      y: 34 + index * 54,
      width: 220,
      height: 44,
      title: pod === "" ? hostAndPort(endpoint.address, endpoint.port) : pod,
      lines: [
        endpoint.node === ""
          ? hostAndPort(endpoint.address, endpoint.port)
          : `${hostAndPort(endpoint.address, endpoint.port)} on ${endpoint.node}`,
      ],
      health: "ok",
      isTraced: true,
      isDimmed: false,
    });
    lines.push({ from: "verdict", to: id, width: 3, perSecond: 1, style: "trace", label: percent(endpoint.chance) });
  });
  const titles = [
    { x: 0, y: 0, width: 196, text: "Client" },
    { x: 282, y: 0, width: 244, text: "Destination" },
  ];
  return { boxes, frames: [], lines, titles, extent: extentOf([...boxes, { x: 0, y: 0, width: 700, height: 60 }]) };
}
