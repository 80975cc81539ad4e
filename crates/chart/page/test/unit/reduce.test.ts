import assert from "node:assert/strict";
import { test } from "node:test";
import type { Change, ServiceRow } from "../../src/contract.ts";
import { reduce } from "../../src/state/reduce.ts";
import { STATE_INITIAL, shownCluster } from "../../src/state/state.ts";
import { detailOf, shopCluster, snapshotOf, totalsOf } from "../mock/cluster.ts";

const mock = shopCluster();
const loaded = reduce(STATE_INITIAL, { kind: "snapshot", snapshot: snapshotOf(mock) });

function row(name: string): ServiceRow {
  const found = mock.services.find((entry) => `${entry.namespace}/${entry.name}` === name);
  assert.ok(found);
  return found;
}

function change(revision: number, services: ServiceRow[], removedServices: string[] = []): Change {
  return {
    revision,
    time: "2026-11-24T14:00:01Z",
    services,
    removedServices,
    nodes: [],
    removedNodes: [],
    totals: totalsOf(mock),
  };
}

test("applies changed, new and removed Services", () => {
  const web = { ...row("shop/web"), ready: 1 };
  const fresh = { ...row("shop/web"), name: "fresh" };
  const state = reduce(loaded, { kind: "change", change: change(1001, [web, fresh], ["shop/cart"]) });
  assert.equal(state.cluster?.services.get("shop/web")?.ready, 1);
  assert.ok(state.cluster?.services.has("shop/fresh"));
  assert.ok(!state.cluster?.services.has("shop/cart"));
  assert.equal(state.cluster?.revision, 1001);
});

test("keeps the earlier state as it was", () => {
  reduce(loaded, { kind: "change", change: change(1001, [], ["shop/web"]) });
  assert.ok(loaded.cluster?.services.has("shop/web"));
});

test("ignores a change that the snapshot contains", () => {
  assert.equal(reduce(loaded, { kind: "change", change: change(1000, [], ["shop/web"]) }).cluster, loaded.cluster);
});

test("keeps the map of nodes if only Services change", () => {
  const state = reduce(loaded, { kind: "change", change: change(1001, [row("shop/web")]) });
  assert.equal(state.cluster?.nodes, loaded.cluster?.nodes);
});

test("ignores a change without a snapshot", () => {
  assert.equal(reduce(STATE_INITIAL, { kind: "change", change: change(1, []) }), STATE_INITIAL);
});

test("shows the past once it is loaded, and follows changes meanwhile", () => {
  const waiting = reduce(loaded, { kind: "past", time: "2026-11-24T13:30:00Z" });
  assert.equal(shownCluster(waiting), loaded.cluster);
  const past = reduce(waiting, {
    kind: "pastSnapshot",
    time: "2026-11-24T13:30:00Z",
    snapshot: { ...snapshotOf(mock), services: [] },
  });
  assert.equal(shownCluster(past)?.services.size, 0);
  const changed = reduce(past, { kind: "change", change: change(1001, [], ["shop/web"]) });
  assert.equal(shownCluster(changed)?.services.size, 0);
  assert.ok(!shownCluster(reduce(changed, { kind: "live" }))?.services.has("shop/web"));
});

test("drops a past snapshot of another moment", () => {
  const past = reduce(reduce(loaded, { kind: "past", time: "b" }), {
    kind: "pastSnapshot",
    time: "a",
    snapshot: snapshotOf(mock),
  });
  assert.equal(past.past?.cluster, null);
});

test("drops a detail of a Service that is no longer selected", () => {
  const selected = reduce(loaded, { kind: "select", selection: { kind: "service", key: "shop/cart" } });
  const detail = detailOf(mock, row("shop/web"));
  assert.equal(reduce(selected, { kind: "detail", key: "shop/web", detail }).detail.kind, "loading");
  assert.equal(reduce(selected, { kind: "detail", key: "shop/cart", detail }).detail.kind, "loaded");
});

test("gives the documentation of a code to each of its findings", () => {
  const [finding] = mock.findings;
  assert.ok(finding);
  const other = { ...finding, documentation: "", field: "other" };
  const state = reduce(loaded, { kind: "findings", findings: [finding, other] });
  assert.deepEqual(
    state.findings.map((entry) => entry.documentation),
    [finding.documentation, finding.documentation],
  );
  const selected = reduce(state, { kind: "select", selection: { kind: "service", key: "shop/web" } });
  const detail = { ...detailOf(mock, row("shop/web")), findings: [other] };
  const shown = reduce(selected, { kind: "detail", key: "shop/web", detail }).detail;
  assert.equal(shown.kind === "loaded" && shown.detail.findings[0]?.documentation, finding.documentation);
});

test("opens the namespace of a selected Service", () => {
  const state = reduce(loaded, { kind: "select", selection: { kind: "service", key: "shop/web" } });
  assert.ok(state.opened.has("shop"));
});

test("drops all data of the cluster when the session ends", () => {
  const state = reduce(
    { ...loaded, findings: mock.findings },
    { kind: "connection", connection: { kind: "signedOut", message: "" } },
  );
  assert.equal(state.cluster, null);
  assert.deepEqual(state.findings, []);
});

test("closes a trace when another object is selected", () => {
  const open = reduce(loaded, { kind: "traceOpen", isOpen: true, form: { url: "tcp://a:1", from: "" } });
  assert.equal(open.trace.form.url, "tcp://a:1");
  assert.equal(reduce(open, { kind: "select", selection: { kind: "node", name: "node-a" } }).trace.isOpen, false);
});
