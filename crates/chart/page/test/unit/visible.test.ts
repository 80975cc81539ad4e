import assert from "node:assert/strict";
import { test } from "node:test";
import { parseVisible, visible } from "../../src/text/visible.ts";

test("replaces characters that reorder, hide or control text", () => {
  assert.equal(visible("a\u202eb"), "a\\u{202e}b");
  assert.equal(visible("\u0000\u001b[31m\u0085\u200b\ufeff"), "\\u{0}\\u{1b}[31m\\u{85}\\u{200b}\\u{feff}");
  assert.equal(visible("\u{e0041}"), "\\u{e0041}");
  assert.equal(visible("\ud800"), "\\u{d800}");
});

test("keeps letters of all scripts, tabs and newlines", () => {
  const text = "shop/web\tпорт\nשלום 港 é";
  assert.equal(visible(text), text);
});

test("makes strings and keys of JSON visible, raw or escaped", () => {
  const json = `{"a\u202e": ["\\u202e", "\\u0007", {"b": "c\u200b"}], "n": 1, "z": null}`;
  assert.deepEqual(parseVisible(json), { "a\\u{202e}": ["\\u{202e}", "\\u{7}", { b: "c\\u{200b}" }], n: 1, z: null });
});

test("keeps a key named __proto__ as data", () => {
  const value = parseVisible('{"__proto__": {"polluted": "\\u0007"}}') as object;
  assert.equal(Object.hasOwn(value, "__proto__"), true);
  assert.equal(({} as { polluted?: string }).polluted, undefined);
});

test("rejects text that is not JSON", () => {
  assert.throws(() => parseVisible("{"), SyntaxError);
});
