import assert from "node:assert/strict";
import { test } from "node:test";
import { formatHash, loginSecret, parseHash } from "../../src/state/hash.ts";
import { FILTER_NONE, STATE_INITIAL, type State } from "../../src/state/state.ts";

function hashOf(state: Partial<State>): string {
  return formatHash({ ...STATE_INITIAL, ...state });
}

test("is empty for the whole cluster", () => {
  assert.equal(hashOf({}), "");
});

test("names a Service as namespace/name", () => {
  assert.equal(hashOf({ selection: { kind: "service", key: "shop/web" } }), "#service=shop/web");
});

test("returns what it formats", () => {
  const states: Partial<State>[] = [
    { selection: { kind: "namespace", name: "shop" } },
    {
      selection: { kind: "node", name: "node-a" },
      filter: { ...FILTER_NONE, text: "a & b=c #", health: "error", onlyWithFindings: true },
    },
    { selection: { kind: "finding", id: "PTL-0002|Service|shop|web|spec.selector" } },
    { filter: { text: "", namespace: "pay", type: "NodePort", health: "", place: "zone:east", onlyWithFindings: false } },
  ];
  for (const state of states) {
    const link = parseHash(hashOf(state));
    assert.deepEqual(link.selection, state.selection ?? { kind: "cluster" });
    assert.deepEqual(link.filter, state.filter ?? FILTER_NONE);
  }
});

test("holds the past moment and a finished trace", () => {
  const trace: State["trace"] = {
    isOpen: true,
    form: { url: "tcp://web.shop:80", from: "pod/pay/cart" },
    result: { kind: "running" },
  };
  const link = parseHash(hashOf({ past: { time: "2026-11-24T13:30:00Z", cluster: null, message: "" }, trace }));
  assert.equal(link.time, "2026-11-24T13:30:00Z");
  assert.deepEqual(link.trace, trace.form);
});

test("ignores invalid values", () => {
  const link = parseHash("#service=nothing&type=Evil&health=great&time=yesterday&findings=all&__proto__=x");
  assert.deepEqual(link, { selection: { kind: "cluster" }, filter: FILTER_NONE, time: "", trace: null });
});

test("cuts long values", () => {
  assert.equal(parseHash(`#q=${"x".repeat(5000)}`).filter.text.length, 1024);
});

test("reads the secret of a sign-in and keeps it out of the link", () => {
  assert.equal(loginSecret("#login=abc-123"), "abc-123");
  assert.equal(loginSecret("#service=shop/web"), "");
  assert.equal(JSON.stringify(parseHash("#login=abc-123")).includes("abc"), false);
});
