import assert from "node:assert/strict";
import { test } from "node:test";
import { delayMilliseconds } from "../../src/state/backoff.ts";
import { curvePaths, nearestIndex } from "../../src/text/curves.ts";
import { ago, bytesPerSecond, counted, frontendAddress, hostAndPort, percent, shortNumber } from "../../src/text/format.ts";

test("shortens numbers to three digits", () => {
  assert.deepEqual([0, 0.4, 12, 999, 1000, 1234, 52_910, 999_999, 129_000_000].map(shortNumber), [
    "0",
    "0.4",
    "12",
    "999",
    "1k",
    "1.23k",
    "52.9k",
    "1M",
    "129M",
  ]);
});

test("writes units, counts and shares", () => {
  assert.equal(bytesPerSecond(956_800), "957 kB/s");
  assert.equal(bytesPerSecond(12), "12 B/s");
  assert.equal(counted(1, "Service"), "1 Service");
  assert.equal(counted(10_000, "match", "matches"), "10,000 matches");
  assert.deepEqual([1, 1 / 3, 0.004].map(percent), ["100 %", "33 %", "0.4 %"]);
});

test("writes IPv6 addresses in brackets", () => {
  assert.equal(hostAndPort("fd00::1", 80), "[fd00::1]:80");
  assert.equal(frontendAddress({ kind: "nodePort", address: "", port: 30_080, protocol: "TCP", portName: "" }), ":30080");
});

test("writes the age of a moment", () => {
  assert.equal(ago("2026-11-24T13:55:50Z", "2026-11-24T14:00:00Z"), "4 min 10 s ago");
  assert.equal(ago("no time", "2026-11-24T14:00:00Z"), "");
});

test("doubles the delay up to its maximum, less jitter", () => {
  assert.deepEqual(
    [0, 1, 2, 10, 1000].map((attempt) => delayMilliseconds(attempt, 0)),
    [500, 1000, 2000, 30_000, 30_000],
  );
  assert.equal(delayMilliseconds(0, 1), 350);
});

test("finds the sample at or before a moment", () => {
  const samples = ["13:00:00", "13:00:30", "13:01:00"].map((time) => ({
    time: `2026-11-24T${time}Z`,
    errors: 0,
    warnings: 0,
    endpointsReady: 0,
    endpoints: 0,
    connections: null,
  }));
  assert.equal(nearestIndex(samples, "2026-11-24T13:00:45Z"), 1);
  assert.equal(nearestIndex(samples, "2026-11-24T12:00:00Z"), 0);
});

test("draws no line of connections that are not known", () => {
  const sample = { time: "2026-11-24T13:00:00Z", errors: 1, warnings: 0, endpointsReady: 0, endpoints: 0, connections: null };
  const paths = curvePaths([sample, sample]);
  assert.equal(paths.connections, "");
  assert.match(paths.errors, /^M0 100\.0V/);
});
