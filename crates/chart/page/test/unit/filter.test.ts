import assert from "node:assert/strict";
import { test } from "node:test";
import {
  groupByNamespace,
  groupByZone,
  isFiltered,
  nodeTreeRows,
  servicesOn,
  serviceTest,
  serviceTreeRows,
  worstHealth,
} from "../../src/state/filter.ts";
import { FILTER_NONE, type Filter, serviceKey } from "../../src/state/state.ts";
import { shopCluster } from "../mock/cluster.ts";

const mock = shopCluster();
const nodes = new Map(mock.nodes.map((node) => [node.name, node]));

function matches(filter: Partial<Filter>): string[] {
  return mock.services.filter(serviceTest({ ...FILTER_NONE, ...filter }, nodes)).map(serviceKey);
}

test("matches all without a filter", () => {
  assert.equal(matches({}).length, mock.services.length);
  assert.equal(isFiltered(FILTER_NONE), false);
});

test("matches words in name, namespace, address and port", () => {
  assert.deepEqual(matches({ text: "shop CART" }), ["shop/cart"]);
  assert.deepEqual(matches({ text: "198.51.100.1" }).includes("shop/web"), true);
  assert.deepEqual(matches({ text: "9090" }), ["monitoring/prometheus"]);
});

test("does not match a part of a port", () => {
  assert.deepEqual(matches({ text: "909" }).includes("monitoring/prometheus"), false);
});

test("matches type, health, findings and namespace together", () => {
  assert.deepEqual(matches({ type: "LoadBalancer", health: "warning" }), ["media/images"]);
  assert.deepEqual(matches({ namespace: "staging", onlyWithFindings: true }), ["staging/cart"]);
});

test("matches the node or the zone of endpoints", () => {
  const zone = mock.nodes[0]?.zone ?? "";
  const onNode = matches({ place: "node-a" });
  assert.ok(onNode.length > 0);
  assert.deepEqual(onNode.sort(), servicesOn(mock.services, "node-a").map(serviceKey));
  assert.ok(matches({ place: `zone:${zone}` }).length >= onNode.length);
  assert.deepEqual(matches({ place: "zone:nowhere" }), []);
});

test("sorts groups and counts healths", () => {
  const groups = groupByNamespace(mock.services);
  assert.deepEqual(
    groups.map((group) => group.name),
    ["default", "kube-system", "media", "monitoring", "pay", "shop", "staging"],
  );
  const shop = groups.find((group) => group.name === "shop");
  assert.deepEqual(shop?.healths, { error: 1, warning: 1, ok: 4, idle: 0 });
  assert.equal(shop?.health, "error");
});

test("takes the most urgent health", () => {
  assert.equal(worstHealth(["ok", "idle", "warning"]), "warning");
  assert.equal(worstHealth([]), "idle");
});

test("lists children of open namespaces only", () => {
  const rows = serviceTreeRows(groupByNamespace(mock.services), (namespace) => namespace === "pay");
  assert.equal(rows.length, 7 + 4);
  assert.deepEqual(
    rows.filter((row) => row.kind === "child").map((row) => [row.id, row.position, row.size]),
    [
      ["pay/bank", 1, 4],
      ["pay/fraud", 2, 4],
      ["pay/gateway", 3, 4],
      ["pay/ledger", 4, 4],
    ],
  );
});

test("lists nodes below their zones", () => {
  const rows = nodeTreeRows(groupByZone(mock.nodes));
  assert.deepEqual(
    rows.map((row) => row.id),
    ["zone:east", "node-a", "node-d", "zone:north", "node-c", "node-f", "zone:west", "node-b", "node-e"],
  );
});
