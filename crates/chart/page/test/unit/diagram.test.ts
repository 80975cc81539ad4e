import assert from "node:assert/strict";
import { test } from "node:test";
import { boxById } from "../../src/map/diagram.ts";
import { serviceDiagram } from "../../src/map/service-diagram.ts";
import { detailOfTrace, traceDiagram, tracedService } from "../../src/map/trace-overlay.ts";
import { detailOf, largeCluster, shopCluster } from "../mock/cluster.ts";
import { traceOf } from "../mock/trace.ts";

const mock = shopCluster();
const nodes = new Map(mock.nodes.map((node) => [node.name, node]));
const find = (key: string) => {
  const row = mock.services.find((entry) => `${entry.namespace}/${entry.name}` === key);
  assert.ok(row);
  return row;
};

test("has a box for each frontend, client and endpoint", () => {
  const row = find("shop/web");
  const detail = detailOf(mock, row);
  const diagram = serviceDiagram(row, detail, nodes, null);
  const count = (kind: string) => diagram.boxes.filter((box) => box.kind === kind).length;
  assert.deepEqual(
    [count("service"), count("frontend"), count("client"), count("endpoint")],
    [1, row.frontends.length, detail.clients.length, detail.endpoints.length],
  );
});

test("has no line without its boxes", () => {
  for (const row of mock.services) {
    const diagram = serviceDiagram(row, detailOf(mock, row), nodes, null);
    for (const line of diagram.lines) {
      assert.ok(
        boxById(diagram, line.from) !== undefined && boxById(diagram, line.to) !== undefined,
        `${row.name}: ${line.from} ${line.to}`,
      );
    }
  }
});

test("shows nodes instead of endpoints without a detail, or with many endpoints", () => {
  const row = find("shop/web");
  const diagram = serviceDiagram(row, null, nodes, null);
  assert.equal(diagram.boxes.filter((box) => box.id.startsWith("node|")).length, row.nodes.length);
  const large = largeCluster(1000);
  const busy = {
    ...(large.services[0] ?? row),
    total: 400,
    ready: 400,
    nodes: large.nodes.map((node): [string, number, number] => [node.name, 20, 20]),
  };
  const many = serviceDiagram(busy, detailOf(large, busy), new Map(large.nodes.map((node) => [node.name, node])), null);
  assert.equal(many.boxes.filter((box) => box.id.startsWith("node|")).length, busy.nodes.length);
});

test("says that a Service without endpoints fails, or expects none", () => {
  assert.equal(boxById(serviceDiagram(find("shop/checkout"), null, nodes, null), "endpoints")?.title, "No endpoints");
  assert.equal(boxById(serviceDiagram(find("pay/bank"), null, nodes, null), "endpoints")?.title, "No endpoints expected");
});

test("keeps boxes of a column apart", () => {
  const row = find("media/transcoder");
  const { boxes } = serviceDiagram(row, detailOf(mock, row), nodes, null);
  const endpoints = boxes.filter((box) => box.kind === "endpoint");
  endpoints.forEach((left, index) => {
    for (const right of endpoints.slice(index + 1)) {
      assert.ok(left.y + left.height <= right.y || right.y + right.height <= left.y || left.x !== right.x);
    }
  });
});

test("marks client, frontend and endpoints of a trace", () => {
  const row = find("shop/web");
  const trace = traceOf(mock, "http://web.shop:80/", "pod/pay/gateway-1");
  assert.equal(tracedService(trace), "shop/web");
  const diagram = serviceDiagram(row, detailOfTrace(row, trace), nodes, trace);
  const traced = diagram.boxes.filter((box) => box.isTraced).map((box) => box.kind);
  assert.deepEqual(traced.sort(), ["client", "endpoint", "endpoint", "endpoint", "frontend", "service"]);
  const chances = diagram.lines.filter((line) => line.style === "trace" && line.label !== "").map((line) => line.label);
  assert.deepEqual(chances, ["33 %", "33 %", "33 %"]);
  assert.equal(diagram.lines.filter((line) => line.style === "excluded").length, trace.paths[0]?.excluded.length);
});

test("draws a trace without a Service as client and destination", () => {
  const trace = traceOf(mock, "http://nothing.shop/", "pod/pay/gateway-1");
  const diagram = traceDiagram(trace);
  assert.deepEqual(
    diagram.boxes.map((box) => box.kind),
    ["client", "verdict"],
  );
  assert.equal(boxById(diagram, "verdict")?.health, "error");
});
