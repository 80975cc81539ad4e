// Generated clusters: the same seed gives the same cluster.

import type {
  ClientRow,
  EndpointRow,
  Finding,
  Frontend,
  Health,
  History,
  NodeRow,
  ServiceDetail,
  ServiceRow,
  ServiceType,
  Snapshot,
  Totals,
  Traffic,
} from "../../src/contract.ts";
import { findingText } from "./findings.ts";
import { type Random, randomOf } from "./random.ts";

export interface MockCluster {
  name: string;
  revision: number;
  nodes: NodeRow[];
  services: ServiceRow[];
  findings: Finding[];
  trafficKnown: boolean;
}

/** Moment of all generated data. */
export const NOW = "2026-11-24T14:00:00Z";

interface Plan {
  namespace: string;
  name: string;
  type?: ServiceType;
  headless?: boolean;
  endpoints: number;
  ready?: number;
  ports?: [number, string][];
  perSecond?: number;
  finding?: string;
}

/** A shop with its payment, media and platform namespaces: 21 Services. */
const SHOP: Plan[] = [
  {
    namespace: "shop",
    name: "web",
    type: "LoadBalancer",
    endpoints: 6,
    perSecond: 184,
    ports: [
      [80, "http"],
      [443, "https"],
    ],
  },
  { namespace: "shop", name: "cart", endpoints: 3, perSecond: 61 },
  { namespace: "shop", name: "catalog", endpoints: 4, ready: 3, perSecond: 92, finding: "PTL-0004" },
  { namespace: "shop", name: "checkout", endpoints: 0, finding: "PTL-0002" },
  { namespace: "shop", name: "search", endpoints: 3, perSecond: 38 },
  { namespace: "shop", name: "redis", headless: true, endpoints: 3, perSecond: 210, ports: [[6379, "redis"]] },
  { namespace: "pay", name: "gateway", type: "NodePort", endpoints: 2, perSecond: 12, ports: [[8443, "https"]] },
  { namespace: "pay", name: "ledger", endpoints: 2, perSecond: 9 },
  { namespace: "pay", name: "fraud", endpoints: 2, ready: 2, perSecond: 5, finding: "PTL-0028" },
  { namespace: "pay", name: "bank", type: "ExternalName", endpoints: 0 },
  { namespace: "media", name: "images", type: "LoadBalancer", endpoints: 4, perSecond: 77, finding: "PTL-0025" },
  { namespace: "media", name: "transcoder", endpoints: 8, perSecond: 4 },
  { namespace: "media", name: "thumbnails", endpoints: 2, perSecond: 31 },
  { namespace: "monitoring", name: "prometheus", endpoints: 1, perSecond: 3, ports: [[9090, "web"]] },
  { namespace: "monitoring", name: "grafana", type: "NodePort", endpoints: 1, perSecond: 1, ports: [[3000, "web"]] },
  { namespace: "monitoring", name: "alertmanager", headless: true, endpoints: 3, perSecond: 0.4, ports: [[9093, "web"]] },
  { namespace: "kube-system", name: "kube-dns", endpoints: 2, perSecond: 320, ports: [[53, "dns"]] },
  { namespace: "kube-system", name: "metrics-server", endpoints: 1, perSecond: 2, ports: [[443, "https"]] },
  { namespace: "default", name: "kubernetes", endpoints: 1, perSecond: 14, ports: [[443, "https"]] },
  { namespace: "staging", name: "web", endpoints: 2, perSecond: 0.6 },
  { namespace: "staging", name: "cart", endpoints: 1, ready: 0, finding: "PTL-0006" },
];

function nodesOf(count: number, zones: string[], random: Random): NodeRow[] {
  return Array.from({ length: count }, (_, index) => {
    const isReady = count < 10 || random() > 0.01;
    return {
      name: count > 26 ? `node-${String(index + 1).padStart(3, "0")}` : `node-${String.fromCharCode(97 + index)}`,
      zone: zones[index % zones.length] ?? "",
      ready: isReady,
      schedulable: random() > 0.03,
      addresses: [`192.0.2.${(index % 250) + 1}`],
      endpoints: 0,
      health: isReady ? "ok" : "error",
    };
  });
}

function traffic(perSecond: number): Traffic {
  return {
    connections: Math.round(perSecond * 3),
    connectionsPerSecond: perSecond,
    bytesPerSecond: Math.round(perSecond * 5200),
    failed: 0,
  };
}

function frontendsOf(plan: Plan, index: number): Frontend[] {
  const ports = plan.ports ?? [[80, "http"]];
  const type = plan.type ?? "ClusterIP";
  if (type === "ExternalName") {
    return [{ kind: "externalName", address: "api.bank.example", port: 0, protocol: "TCP", portName: "" }];
  }
  const clusterIp = `10.96.${Math.floor(index / 250) % 250}.${(index % 250) + 1}`;
  return ports.flatMap(([port, portName], portIndex): Frontend[] => {
    const protocol = portName === "dns" ? "UDP" : "TCP";
    const frontends: Frontend[] =
      plan.headless === true ? [] : [{ kind: "clusterIP", address: clusterIp, port, protocol, portName }];
    if (type === "NodePort" || type === "LoadBalancer") {
      frontends.push({ kind: "nodePort", address: "", port: 30_000 + ((index * 7 + portIndex) % 2700), protocol, portName });
    }
    if (type === "LoadBalancer") {
      frontends.push({ kind: "loadBalancer", address: `198.51.100.${(index % 250) + 1}`, port, protocol, portName });
    }
    return frontends;
  });
}

function healthOf(plan: Plan, severity: Health): Health {
  return plan.type === "ExternalName" ? "idle" : severity;
}

function build(name: string, plans: Plan[], nodes: NodeRow[], random: Random): MockCluster {
  const findings: Finding[] = [];
  const services = plans.map((plan, index): ServiceRow => {
    const ready = plan.ready ?? plan.endpoints;
    const finding = plan.finding === undefined ? null : findingText(plan.finding, plan.namespace, plan.name);
    if (finding !== null) {
      findings.push(finding);
    }
    const shares = new Map<string, [string, number, number]>();
    for (let endpoint = 0; endpoint < plan.endpoints; endpoint += 1) {
      const node = nodes[Math.floor(random() * nodes.length)];
      if (node !== undefined) {
        node.endpoints += 1;
        const share = shares.get(node.name) ?? [node.name, 0, 0];
        share[2] += 1;
        share[1] += endpoint < ready ? 1 : 0;
        shares.set(node.name, share);
      }
    }
    const severity = finding?.severity;
    const health = healthOf(
      plan,
      severity === "error" ? "error" : severity === "warning" ? "warning" : plan.endpoints === 0 ? "idle" : "ok",
    );
    return {
      namespace: plan.namespace,
      name: plan.name,
      type: plan.type ?? "ClusterIP",
      headless: plan.headless ?? false,
      frontends: frontendsOf(plan, index),
      ready,
      serving: ready,
      terminating: 0,
      total: plan.endpoints,
      nodes: [...shares.values()],
      health,
      findings: [severity === "error" ? 1 : 0, severity === "warning" ? 1 : 0, severity === "info" ? 1 : 0],
      traffic: plan.perSecond === undefined ? traffic(0) : traffic(plan.perSecond),
    };
  });
  const order = { error: 0, warning: 1, info: 2 };
  findings.sort((left, right) => order[left.severity] - order[right.severity] || (left.code < right.code ? -1 : 1));
  return { name, revision: 1000, nodes, services, findings, trafficKnown: true };
}

export function shopCluster(): MockCluster {
  const random = randomOf(7);
  return build("production", SHOP, nodesOf(6, ["east", "west", "north"], random), random);
}

const WORDS = [
  "api",
  "web",
  "cart",
  "auth",
  "search",
  "mail",
  "queue",
  "cache",
  "store",
  "feed",
  "jobs",
  "image",
  "video",
  "ledger",
  "audit",
  "geo",
  "chat",
  "push",
  "rank",
  "tax",
];
const TEAMS = [
  "atlas",
  "borealis",
  "cobalt",
  "delta",
  "ember",
  "fjord",
  "glacier",
  "helios",
  "iris",
  "juniper",
  "krypton",
  "lagoon",
  "meridian",
  "nimbus",
  "opal",
  "prism",
  "quartz",
  "reef",
  "sierra",
  "tundra",
  "umbra",
  "vertex",
  "willow",
  "xenon",
  "yarrow",
  "zephyr",
];
const SOMETIMES = ["PTL-0002", "PTL-0004", "PTL-0006", "PTL-0022", "PTL-0025", "PTL-0028"];

/** Cluster of about `count` Services in many namespaces of different sizes. */
export function largeCluster(count: number): MockCluster {
  const random = randomOf(count);
  const namespaces = Math.max(4, Math.round(Math.sqrt(count) * 0.62));
  const weights = Array.from({ length: namespaces }, () => 0.25 + random() ** 3 * 4);
  const sum = weights.reduce((total, weight) => total + weight, 0);
  const plans: Plan[] = [];
  weights.forEach((weight, index) => {
    const namespace = `${TEAMS[index % TEAMS.length]}${index < TEAMS.length ? "" : `-${Math.floor(index / TEAMS.length) + 1}`}`;
    const size = Math.max(1, Math.round((count * weight) / sum));
    for (let service = 0; service < size && plans.length < count; service += 1) {
      const word = WORDS[service % WORDS.length] ?? "api";
      const hasFinding = random() < 0.035;
      const code = SOMETIMES[Math.floor(random() * SOMETIMES.length)] ?? "PTL-0002";
      const endpoints = hasFinding && code === "PTL-0002" ? 0 : 1 + Math.floor(random() ** 4 * 24);
      const type: ServiceType = random() < 0.06 ? "LoadBalancer" : random() < 0.05 ? "NodePort" : "ClusterIP";
      const plan: Plan = {
        namespace,
        name: service < WORDS.length ? word : `${word}-${Math.floor(service / WORDS.length) + 1}`,
        type,
        endpoints,
        perSecond: Math.round(random() ** 6 * 900) / 10,
      };
      if (hasFinding) {
        plan.finding = code;
        plan.ready = Math.floor(endpoints * 0.6);
      }
      plans.push(plan);
    }
  });
  const nodes = nodesOf(Math.max(6, Math.round(count / 50)), ["east", "west", "north"], random);
  return build("large", plans, nodes, random);
}

export function totalsOf(cluster: MockCluster): Totals {
  const sum = (value: (row: ServiceRow) => number) => cluster.services.reduce((total, row) => total + value(row), 0);
  return {
    services: cluster.services.length,
    endpointsReady: sum((row) => row.ready),
    endpoints: sum((row) => row.total),
    errors: cluster.findings.filter((finding) => finding.severity === "error").length,
    warnings: cluster.findings.filter((finding) => finding.severity === "warning").length,
    connections: cluster.trafficKnown ? sum((row) => row.traffic?.connections ?? 0) : null,
    connectionsPerSecond: cluster.trafficKnown
      ? Math.round(sum((row) => row.traffic?.connectionsPerSecond ?? 0) * 10) / 10
      : null,
  };
}

export function snapshotOf(cluster: MockCluster): Snapshot {
  return {
    revision: cluster.revision,
    time: NOW,
    cluster: cluster.name,
    nodes: cluster.nodes,
    services: cluster.services,
    totals: totalsOf(cluster),
    trafficKnown: cluster.trafficKnown,
    historyFrom: "2026-11-24T13:00:00Z",
  };
}

const HISTORY_SAMPLES = 120;
const HISTORY_STEP_SECONDS = 30;

export function historyOf(cluster: MockCluster): History {
  const random = randomOf(11);
  const totals = totalsOf(cluster);
  const samples = Array.from({ length: HISTORY_SAMPLES }, (_, index) => {
    const isOutage = index > 52 && index < 70;
    const wave = 0.7 + 0.3 * Math.sin(index / 13) + 0.06 * random();
    return {
      time: new Date(Date.parse(NOW) - (HISTORY_SAMPLES - index) * HISTORY_STEP_SECONDS * 1000).toISOString().replace(".000", ""),
      errors: isOutage ? totals.errors + 3 : index > 70 ? totals.errors : Math.max(0, totals.errors - 1),
      warnings: totals.warnings + (index % 17 === 0 ? 1 : 0),
      endpointsReady: isOutage ? totals.endpointsReady - 6 : totals.endpointsReady,
      endpoints: totals.endpoints,
      connections: totals.connections === null ? null : Math.round(totals.connections * (isOutage ? wave * 0.6 : wave)),
    };
  });
  return { stepSeconds: HISTORY_STEP_SECONDS, samples };
}

/** The cluster at a past moment: during the outage, Services of two namespaces have no ready endpoints. */
export function pastSnapshot(cluster: MockCluster, time: string): Snapshot {
  const index = historyOf(cluster).samples.findIndex((sample) => Date.parse(sample.time) >= Date.parse(time));
  const isOutage = index > 52 && index < 70;
  const services = cluster.services.map((row): ServiceRow => {
    const isHit = isOutage && (row.namespace === "shop" || row.namespace === "pay") && row.total > 0 && row.total < 4;
    return isHit
      ? {
          ...row,
          ready: 0,
          serving: 0,
          health: "error",
          findings: [1, 0, 0],
          nodes: row.nodes.map(([node, , total]) => [node, 0, total]),
          traffic: traffic(0),
        }
      : row;
  });
  const past = { ...cluster, services };
  const errors = services.filter((row) => row.health === "error").length;
  return { ...snapshotOf(past), time, totals: { ...totalsOf(past), errors } };
}

export function detailOf(cluster: MockCluster, row: ServiceRow): ServiceDetail {
  const random = randomOf(row.name.length * 31 + row.namespace.length);
  const zones = new Map(cluster.nodes.map((node) => [node.name, node.zone]));
  const endpoints: EndpointRow[] = row.nodes.flatMap(([node, ready, total]) =>
    Array.from({ length: total }, (_, index): EndpointRow => {
      const isReady = index < ready;
      const suffix = Math.floor(random() * 1_679_616)
        .toString(36)
        .padStart(4, "b");
      return {
        address: `10.244.${
          Math.max(
            0,
            cluster.nodes.findIndex((entry) => entry.name === node),
          ) % 250
        }.${10 + Math.floor(random() * 230)}`,
        ports: row.frontends.length === 0 ? "6379/TCP" : "8080/TCP http",
        pod: `${row.namespace}/${row.name}-${suffix}`,
        node,
        zone: zones.get(node) ?? "",
        ready: isReady,
        serving: isReady,
        terminating: false,
        traffic:
          row.traffic === null
            ? null
            : traffic(
                isReady
                  ? Math.round((row.traffic.connectionsPerSecond / Math.max(1, row.ready)) * (0.8 + random() * 0.4) * 10) / 10
                  : 0,
              ),
      };
    }),
  );
  const perSecond = row.traffic?.connectionsPerSecond ?? 0;
  const clients = perSecond === 0 ? [] : clientsOf(cluster, row, perSecond, endpoints, random);
  return {
    row,
    selector: { app: row.name, "app.kubernetes.io/part-of": row.namespace },
    labels: { "app.kubernetes.io/name": row.name, "app.kubernetes.io/managed-by": "Helm" },
    policies: {
      internalTrafficPolicy: "Cluster",
      externalTrafficPolicy: row.type === "LoadBalancer" ? "Local" : "",
      sessionAffinity: "None",
      trafficDistribution: "PreferSameZone",
    },
    endpoints,
    endpointsOmitted: 0,
    clients,
    findings: cluster.findings.filter((finding) => finding.services.includes(`${row.namespace}/${row.name}`)),
  };
}

function clientsOf(
  cluster: MockCluster,
  row: ServiceRow,
  perSecond: number,
  endpoints: EndpointRow[],
  random: Random,
): ClientRow[] {
  const isOutside = row.type === "LoadBalancer" || row.type === "NodePort";
  const names = ["cart", "web", "search", "catalog", "probe"];
  return Array.from({ length: isOutside ? 7 : 5 }, (_, index): ClientRow => {
    const kind = isOutside && index < 4 ? "external" : index === 4 ? "node" : "pod";
    const node = cluster.nodes[Math.floor(random() * cluster.nodes.length)];
    const name = names[index % names.length] ?? "client";
    return {
      address:
        kind === "external"
          ? `203.0.113.${7 + index * 23}`
          : kind === "node"
            ? (node?.addresses[0] ?? "")
            : `10.244.${index}.${30 + index}`,
      kind,
      name: kind === "external" ? "" : kind === "node" ? (node?.name ?? "") : `${row.namespace}/${name}-${index}x7`,
      node: kind === "external" ? "" : (node?.name ?? ""),
      traffic: traffic(Math.round(perSecond * (0.34 / (index + 1)) * 10) / 10),
      endpoints: endpoints.slice(0, 3).map((endpoint) => [endpoint.address, 4]),
    };
  });
}
