// Traces of generated clusters, in the form of `portolan trace -o json`.

import type { Trace } from "../../src/contract.ts";
import { detailOf, type MockCluster } from "./cluster.ts";

export function traceOf(cluster: MockCluster, url: string, from: string): Trace {
  const parsed = new URL(url.replace(/^(tcp|udp|sctp):/, "http:"));
  const [name = "", namespace = "default"] = parsed.hostname.split(".");
  const row = cluster.services.find((entry) => entry.namespace === namespace && entry.name === name);
  const port = Number(parsed.port || "80");
  const node = cluster.nodes[1];
  const client = {
    kind: "Pod",
    namespace: from.split("/")[1] ?? "default",
    name: from.split("/").at(-1) ?? "",
    addresses: ["10.244.1.9"],
    node: node?.name ?? "",
  };
  const destination = { url, protocol: "TCP", host: parsed.hostname, port };
  const resolver = {
    nameServers: "cluster",
    searches: [`${client.namespace}.svc.cluster.local`, "svc.cluster.local", "cluster.local"],
    ndots: 5,
    reason: "dnsPolicy ClusterFirst: the Pod uses cluster DNS",
  };
  if (row === undefined) {
    const tried = [...resolver.searches.map((domain) => `${parsed.hostname}.${domain}`), parsed.hostname].map((entry) => ({
      name: entry,
      answer: "no such name",
    }));
    const reason = `namespace ${namespace} has no Service ${name}`;
    return { verdict: "no name", reason, destination, client, name: { resolver, tried }, paths: [], findings: [] };
  }
  const service = { kind: "Service", namespace, name };
  const detail = detailOf(cluster, row);
  const ready = detail.endpoints.filter((endpoint) => endpoint.ready);
  const used = ready.length > 2 ? ready.slice(0, Math.ceil(ready.length / 2)) : ready;
  const address = row.frontends[0]?.address ?? "";
  const reason =
    used.length === 0
      ? `Service ${namespace}/${name} has no endpoints`
      : `reaches ${used.length} endpoints of Service ${namespace}/${name}`;
  const verdict = used.length === 0 ? "refused" : "reaches";
  const place = (endpoint: (typeof ready)[number]) => ({
    address: endpoint.address,
    port: 8080,
    pod: endpoint.pod,
    node: endpoint.node,
    zone: endpoint.zone,
    ready: endpoint.ready,
    serving: endpoint.serving,
    terminating: endpoint.terminating,
  });
  return {
    verdict,
    reason,
    destination,
    client,
    name: {
      resolver,
      tried: [
        { name: `${parsed.hostname}.${client.namespace}.svc.cluster.local`, answer: "no such name" },
        { name: `${parsed.hostname}.svc.cluster.local`, answer: "addresses", addresses: [address] },
      ],
    },
    paths: [
      {
        nodes: [client.node],
        addresses: [address],
        source: "10.244.1.9",
        steps: [
          {
            step: "node",
            result: "the client runs on the node",
            object: { kind: "Pod", namespace: client.namespace, name: client.name },
            field: "spec.nodeName",
          },
          {
            step: "frontend",
            result: `cluster IP of Service ${namespace}/${name}, port "http", TCP`,
            object: service,
            field: "spec.ports[0].port",
          },
          {
            step: "trafficPolicy",
            result: "internalTrafficPolicy Cluster: endpoints of all nodes",
            object: service,
            field: "spec.internalTrafficPolicy",
          },
          {
            step: "topology",
            result: "trafficDistribution PreferSameZone: endpoints of the zone of the node",
            object: service,
            field: "spec.trafficDistribution",
          },
          { step: "scheduler", result: "random: each connection goes to one of the endpoints", object: null, field: "" },
          { step: "masquerade", result: "no: endpoints see the address of the client", object: null, field: "" },
        ],
        endpoints: used.map((endpoint) => ({ ...place(endpoint), chance: 1 / used.length, masquerade: false })),
        excluded: detail.endpoints
          .filter((endpoint) => !used.includes(endpoint))
          .map((endpoint) => ({
            ...place(endpoint),
            reason: endpoint.ready ? `in zone ${endpoint.zone}, and the hints prefer the zone of the client` : "not ready",
            object: service,
            field: "spec.trafficDistribution",
          })),
        affinitySeconds: null,
        verdict,
        reason,
      },
    ],
    findings: detail.findings,
  };
}
