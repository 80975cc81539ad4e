import assert from "node:assert/strict";
import { test } from "node:test";
import { center, contains, type Rect } from "../../src/map/geometry.ts";
import { assignSlots, bestGrid, capacity, layoutMap, targetAt } from "../../src/map/layout.ts";
import { groupByNamespace, groupByZone } from "../../src/state/filter.ts";
import { serviceKey } from "../../src/state/state.ts";
import { largeCluster, shopCluster } from "../mock/cluster.ts";

const SIZE = { width: 1000, height: 700 };

function layoutOf(mock: ReturnType<typeof shopCluster>, previous: Parameters<typeof layoutMap>[3] = null) {
  return layoutMap(groupByNamespace(mock.services), groupByZone(mock.nodes), SIZE, previous);
}

function overlaps(left: Rect, right: Rect): boolean {
  const slack = 0.01;
  return (
    left.x + left.width > right.x + slack &&
    right.x + right.width > left.x + slack &&
    left.y + left.height > right.y + slack &&
    right.y + right.height > left.y + slack
  );
}

for (const mock of [shopCluster(), largeCluster(1000), largeCluster(10_000)]) {
  test(`gives each of ${mock.services.length} Services a cell in its namespace`, () => {
    const layout = layoutOf(mock);
    assert.equal(layout.cells.size, mock.services.length);
    for (const row of mock.services) {
      const cell = layout.cells.get(serviceKey(row));
      const area = layout.namespaces.find((namespace) => namespace.name === row.namespace);
      assert.ok(cell !== undefined && area !== undefined && contains(area, center(cell)));
    }
  });

  test(`separates the namespaces of ${mock.services.length} Services`, () => {
    const { namespaces, clientColumn, nodeColumn } = layoutOf(mock);
    const areas: Rect[] = [...namespaces, clientColumn, ...(nodeColumn === null ? [] : [nodeColumn])];
    areas.forEach((left, index) => {
      for (const right of areas.slice(index + 1)) {
        assert.ok(!overlaps(left, right));
      }
    });
  });

  test(`finds each of ${mock.services.length} Services and nodes at its position`, () => {
    const layout = layoutOf(mock);
    for (const [key, cell] of layout.cells) {
      assert.deepEqual(targetAt(layout, center(cell)), { kind: "service", key });
    }
    for (const [name, rect] of layout.nodes) {
      assert.deepEqual(targetAt(layout, center(rect)), { kind: "node", name });
    }
  });
}

test("keeps the cells of other Services when one is added and one is removed", () => {
  const mock = largeCluster(1000);
  const before = layoutOf(mock);
  const [first, second] = mock.services;
  assert.ok(first !== undefined && second !== undefined);
  const services = [...mock.services.slice(1), { ...second, name: "added" }];
  const after = layoutOf({ ...mock, services }, before);
  const moved = services.filter(
    (row) => JSON.stringify(before.cells.get(serviceKey(row))) !== JSON.stringify(after.cells.get(serviceKey(row))),
  );
  assert.deepEqual(moved.map(serviceKey), [`${second.namespace}/added`]);
});

test("assigns free slots in order and keeps used ones", () => {
  assert.deepEqual(assignSlots(["a", "b", "d"], 4, ["c", "b"]), ["a", "b", "d", null]);
});

test("keeps at most a quarter of the cells free", () => {
  for (let count = 1; count <= 2000; count += 1) {
    const size = capacity(count, 0);
    assert.ok(size >= count && size <= Math.ceil(count * 1.25), `${count}: ${size}`);
  }
});

test("keeps the capacity until a namespace outgrows it or is half empty", () => {
  assert.equal(capacity(9, 12), 12);
  assert.equal(capacity(13, 12), 14);
  assert.equal(capacity(5, 12), 5);
});

test("fills the area with cells of about the desired shape", () => {
  const { columns, cell } = bestGrid({ width: 400, height: 100 }, 8, 2, { width: 999, height: 999 });
  assert.deepEqual([columns, cell.width, cell.height], [4, 100, 50]);
});

test("lays out an empty cluster", () => {
  const layout = layoutMap([], [], SIZE, null);
  assert.deepEqual([layout.namespaces, layout.nodeColumn, targetAt(layout, { x: 500, y: 300 })], [[], null, null]);
});
