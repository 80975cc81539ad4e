// Diagram of one Service: clients, frontends, and endpoints by zone and node.

import type { ClientRow, EndpointRow, Health, NodeRow, ServiceDetail, ServiceRow, Trace } from "../contract.ts";
import { byText } from "../state/filter.ts";
import { serviceKey } from "../state/state.ts";
import { counted, FRONTEND_TITLES, frontendAddress, groupedNumber, readiness, shortNumber, typeTitle } from "../text/format.ts";
import { type Box, type ColumnTitle, type Diagram, endpointId, extentOf, type Frame, frontendId, type Line } from "./diagram.ts";
import { lineWidth } from "./map-lines.ts";
import { addTrace } from "./trace-overlay.ts";

/** More boxes of clients are not legible; the panel lists all. */
const CLIENT_BOXES_MAX = 12;
/** Above this number, a node is one box. */
const ENDPOINT_BOXES_MAX = 48;
const CLIENT = { x: 0, width: 196, height: 44, gap: 10 };
const SERVICE = { x: 282, width: 244, header: 70, row: 48 };
const ENDPOINT = { x: 612, width: 196, height: 44, gap: 8 };
const TITLE_HEIGHT = 34;

export function serviceDiagram(
  row: ServiceRow,
  detail: ServiceDetail | null,
  nodes: ReadonlyMap<string, NodeRow>,
  trace: Trace | null,
): Diagram {
  const places = endpointPlaces(row, detail, nodes);
  const clients = clientBoxes(detail?.clients ?? [], row, trace !== null);
  const serviceHeight = SERVICE.header + Math.max(1, row.frontends.length) * SERVICE.row + 12;
  const height = Math.max(places.height, clients.height, serviceHeight);
  shift(clients.boxes, TITLE_HEIGHT + (height - clients.height) / 2);
  shift(places.boxes, TITLE_HEIGHT + (height - places.height) / 2);
  shift(places.frames, TITLE_HEIGHT + (height - places.height) / 2);
  const serviceY = TITLE_HEIGHT + (height - serviceHeight) / 2;
  const boxes = [...clients.boxes, serviceBox(row, serviceY, serviceHeight), ...frontendBoxes(row, serviceY), ...places.boxes];
  const titles: ColumnTitle[] = [
    { x: CLIENT.x, y: 0, width: CLIENT.width, text: "Clients" },
    { x: SERVICE.x, y: 0, width: SERVICE.width, text: "Service and frontends" },
    { x: ENDPOINT.x, y: 0, width: 240, text: "Endpoints by zone and node" },
  ];
  const diagram: Diagram = {
    boxes,
    frames: places.frames,
    lines: [...clients.lines, ...places.lines],
    titles,
    extent: extentOf([...boxes, ...places.frames, { x: 0, y: 0, width: ENDPOINT.x + ENDPOINT.width, height: 10 }]),
  };
  return trace === null ? diagram : addTrace(diagram, row, trace);
}

function shift(rects: { y: number }[], offset: number): void {
  for (const rect of rects) {
    rect.y += offset;
  }
}

function serviceBox(row: ServiceRow, y: number, height: number): Box {
  return {
    id: "service",
    kind: "service",
    x: SERVICE.x,
    y,
    width: SERVICE.width,
    height,
    title: serviceKey(row),
    lines: [`${typeTitle(row)} · ${readiness(row)}`],
    health: row.health,
    isTraced: false,
    isDimmed: false,
  };
}

function frontendBoxes(row: ServiceRow, serviceY: number): Box[] {
  return row.frontends.map((frontend, index) => ({
    id: frontendId(frontend),
    kind: "frontend",
    x: SERVICE.x + 12,
    y: serviceY + SERVICE.header + index * SERVICE.row,
    width: SERVICE.width - 24,
    height: SERVICE.row - 6,
    title: frontendAddress(frontend),
    lines: [`${FRONTEND_TITLES[frontend.kind]} · ${frontend.protocol}${frontend.portName === "" ? "" : ` ${frontend.portName}`}`],
    health: null,
    isTraced: false,
    isDimmed: false,
  }));
}

const CLIENT_KIND_TITLES = { pod: "Pod", node: "Node", external: "external client" };

function clientBoxes(clients: ClientRow[], row: ServiceRow, isTraced: boolean): { boxes: Box[]; lines: Line[]; height: number } {
  const busiest = [...clients].sort((left, right) => right.traffic.connectionsPerSecond - left.traffic.connectionsPerSecond);
  const shown = busiest.slice(0, CLIENT_BOXES_MAX);
  const boxes: Box[] = shown.map((client) => ({
    id: `client|${client.address}`,
    kind: "client",
    ...clientPlace(),
    title: client.name === "" ? client.address : client.name,
    lines: [
      `${CLIENT_KIND_TITLES[client.kind]}${client.node === "" ? "" : ` on ${client.node}`} · ${shortNumber(client.traffic.connectionsPerSecond)}/s`,
    ],
    health: client.traffic.failed > 0 ? "error" : null,
    isTraced: false,
    isDimmed: false,
  }));
  const rest = busiest.length - shown.length;
  if (rest > 0) {
    boxes.push({ ...summaryBox("clients"), title: counted(rest, "further client"), lines: ["in the panel"] });
  } else if (boxes.length === 0 && !isTraced) {
    boxes.push({
      ...summaryBox("clients"),
      title: row.traffic === null ? "Clients are not known" : "No client connects",
      lines: [row.traffic === null ? "no flows of nodes are read" : "at present"],
    });
  }
  boxes.forEach((box, index) => {
    box.y = index * (CLIENT.height + CLIENT.gap);
  });
  const lines = shown.map(
    (client): Line => ({
      from: `client|${client.address}`,
      to: "service",
      width: lineWidth(client.traffic.connectionsPerSecond),
      perSecond: client.traffic.connectionsPerSecond,
      style: "traffic",
      label: "",
    }),
  );
  return { boxes, lines, height: boxes.length * (CLIENT.height + CLIENT.gap) };
}

function clientPlace() {
  return { x: CLIENT.x, y: 0, width: CLIENT.width, height: CLIENT.height };
}

function summaryBox(id: string): Box {
  return { id, kind: "summary", ...clientPlace(), title: "", lines: [], health: null, isTraced: false, isDimmed: false };
}

interface Places {
  boxes: Box[];
  frames: Frame[];
  lines: Line[];
  height: number;
}

/** Endpoints of a node, or their numbers. */
interface NodePlace {
  node: string;
  zone: string;
  ready: number;
  total: number;
  endpoints: EndpointRow[];
}

function nodePlaces(row: ServiceRow, detail: ServiceDetail | null, nodes: ReadonlyMap<string, NodeRow>): NodePlace[] {
  const places = new Map<string, NodePlace>();
  for (const [node, ready, total] of row.nodes) {
    places.set(node, { node, zone: nodes.get(node)?.zone ?? "", ready, total, endpoints: [] });
  }
  for (const endpoint of detail?.endpoints ?? []) {
    const place = places.get(endpoint.node) ?? { node: endpoint.node, zone: endpoint.zone, ready: 0, total: 0, endpoints: [] };
    place.zone ||= endpoint.zone;
    place.endpoints.push(endpoint);
    places.set(endpoint.node, place);
  }
  return [...places.values()].sort((left, right) => byText(left.zone, right.zone) || byText(left.node, right.node));
}

function endpointPlaces(row: ServiceRow, detail: ServiceDetail | null, nodes: ReadonlyMap<string, NodeRow>): Places {
  const places = nodePlaces(row, detail, nodes);
  if (places.length === 0) {
    const text = row.health === "idle" ? "No endpoints expected" : "No endpoints";
    const box: Box = {
      ...summaryBox("endpoints"),
      x: ENDPOINT.x,
      title: text,
      lines: [row.health === "idle" ? typeTitle(row) : "connections fail"],
      health: row.health,
    };
    return {
      boxes: [box],
      frames: [],
      lines: [{ from: "service", to: "endpoints", width: 1.5, perSecond: null, style: "reach", label: "" }],
      height: ENDPOINT.height,
    };
  }
  const count = detail?.endpoints.length ?? 0;
  const isDetailed = detail !== null && count <= ENDPOINT_BOXES_MAX && detail.endpointsOmitted === 0;
  const columns = isDetailed
    ? count <= 12
      ? 1
      : count <= 26
        ? 2
        : 3
    : places.length <= 14
      ? 1
      : places.length <= 40
        ? 2
        : Math.ceil(places.length / 20);
  return isDetailed ? detailedPlaces(places, columns) : summarisedPlaces(places, row, columns);
}

function zonesOf(places: NodePlace[]): [string, NodePlace[]][] {
  const zones = new Map<string, NodePlace[]>();
  for (const place of places) {
    zones.set(place.zone, [...(zones.get(place.zone) ?? []), place]);
  }
  return [...zones];
}

function endpointHealth(endpoint: EndpointRow): Health {
  return endpoint.ready ? "ok" : endpoint.serving ? "warning" : endpoint.terminating ? "idle" : "error";
}

export function endpointState(endpoint: { ready: boolean; serving: boolean; terminating: boolean }): string {
  if (endpoint.terminating) {
    return endpoint.serving ? "terminating, serving" : "terminating";
  }
  return endpoint.ready ? "ready" : "not ready";
}

const ZONE_HEADER = 26;
const NODE_HEADER = 24;
const FRAME_PADDING = 10;

function detailedPlaces(places: NodePlace[], columns: number): Places {
  const result: Places = { boxes: [], frames: [], lines: [], height: 0 };
  const nodeWidth = columns * (ENDPOINT.width + ENDPOINT.gap) - ENDPOINT.gap + 2 * FRAME_PADDING;
  let y = 0;
  for (const [zone, members] of zonesOf(places)) {
    const zoneTop = y;
    y += ZONE_HEADER;
    for (const place of members) {
      const rows = Math.ceil(place.endpoints.length / columns);
      const height = NODE_HEADER + rows * (ENDPOINT.height + ENDPOINT.gap) + FRAME_PADDING - ENDPOINT.gap + 4;
      result.frames.push({
        x: ENDPOINT.x + FRAME_PADDING,
        y,
        width: nodeWidth,
        height,
        title: place.node === "" ? "no node" : place.node,
        note: `${place.ready}/${place.total} ready`,
        level: 1,
      });
      const top = y + NODE_HEADER;
      place.endpoints.forEach((endpoint, index) => {
        addEndpoint(
          result,
          endpoint,
          ENDPOINT.x + 2 * FRAME_PADDING + (index % columns) * (ENDPOINT.width + ENDPOINT.gap),
          top + Math.floor(index / columns) * (ENDPOINT.height + ENDPOINT.gap),
        );
      });
      y += height + FRAME_PADDING;
    }
    result.frames.push({
      x: ENDPOINT.x,
      y: zoneTop,
      width: nodeWidth + 2 * FRAME_PADDING,
      height: y - zoneTop,
      title: zone === "" ? "no zone" : `zone ${zone}`,
      note: "",
      level: 0,
    });
    y += 14;
  }
  result.height = y - 14;
  result.frames.sort((left, right) => left.level - right.level);
  return result;
}

function addEndpoint(result: Places, endpoint: EndpointRow, x: number, y: number): void {
  const id = endpointId(endpoint.address);
  const perSecond = endpoint.traffic?.connectionsPerSecond ?? null;
  const traffic = perSecond === null ? "" : ` · ${shortNumber(perSecond)}/s`;
  result.boxes.push({
    id,
    kind: "endpoint",
    x,
    y,
    width: ENDPOINT.width,
    height: ENDPOINT.height,
    title: endpoint.pod === "" ? endpoint.address : (endpoint.pod.split("/").at(-1) ?? endpoint.pod),
    lines: [
      `${endpoint.pod === "" ? endpointState(endpoint) : endpoint.address}${endpoint.pod !== "" && !endpoint.ready ? ` · ${endpointState(endpoint)}` : ""}${traffic}`,
    ],
    health: endpointHealth(endpoint),
    isTraced: false,
    isDimmed: false,
  });
  result.lines.push({
    from: "service",
    to: id,
    width: perSecond === null ? 1.5 : lineWidth(perSecond),
    perSecond: endpoint.ready || endpoint.serving ? perSecond : null,
    style: endpoint.ready || (endpoint.serving && perSecond !== null && perSecond > 0) ? "traffic" : "reach",
    label: "",
  });
}

function summarisedPlaces(places: NodePlace[], row: ServiceRow, columns: number): Places {
  const result: Places = { boxes: [], frames: [], lines: [], height: 0 };
  let y = 0;
  for (const [zone, members] of zonesOf(places)) {
    const top = y;
    y += ZONE_HEADER;
    members.forEach((place, index) => {
      const id = `node|${place.node}`;
      result.boxes.push({
        id,
        kind: "summary",
        x: ENDPOINT.x + FRAME_PADDING + (index % columns) * (ENDPOINT.width + ENDPOINT.gap),
        y: y + Math.floor(index / columns) * (ENDPOINT.height + ENDPOINT.gap),
        width: ENDPOINT.width,
        height: ENDPOINT.height,
        title: place.node === "" ? "no node" : place.node,
        lines: [`${groupedNumber(place.ready)}/${groupedNumber(place.total)} ready`],
        health: place.total === 0 ? "idle" : place.ready === 0 ? "error" : place.ready < place.total ? "warning" : "ok",
        isTraced: false,
        isDimmed: false,
      });
      const perSecond = row.traffic === null ? null : (row.traffic.connectionsPerSecond * place.ready) / Math.max(1, row.ready);
      result.lines.push({
        from: "service",
        to: id,
        width: 1 + Math.min(5, Math.log2(1 + place.total)),
        perSecond,
        style: place.ready === 0 ? "reach" : "traffic",
        label: "",
      });
    });
    y += Math.ceil(members.length / columns) * (ENDPOINT.height + ENDPOINT.gap) + 4;
    const width =
      Math.min(columns, Math.max(1, members.length)) * (ENDPOINT.width + ENDPOINT.gap) - ENDPOINT.gap + 2 * FRAME_PADDING;
    result.frames.push({
      x: ENDPOINT.x,
      y: top,
      width,
      height: y - top,
      title: zone === "" ? "no zone" : `zone ${zone}`,
      note: "",
      level: 0,
    });
    y += 14;
  }
  result.height = y - 14;
  return result;
}
