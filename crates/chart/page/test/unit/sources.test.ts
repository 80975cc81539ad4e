import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

const SOURCES = readdirSync("src", { recursive: true, encoding: "utf8" }).filter((name) => /\.(tsx?|html)$/.test(name));

test("uses no interface that parses markup or code from text", () => {
  const forbidden =
    /innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|srcdoc|\beval\(|new Function/;
  assert.ok(SOURCES.length > 30);
  for (const name of SOURCES) {
    assert.doesNotMatch(readFileSync(join("src", name), "utf8"), forbidden, name);
  }
});

test("has neither inline scripts nor inline styles nor addresses of other hosts in the document", () => {
  const document = readFileSync("src/index.html", "utf8");
  assert.doesNotMatch(document, /<style|style=|<script>|\son\w+=|https?:/);
});

test("stores nothing in the browser but the theme", () => {
  for (const name of SOURCES.filter((entry) => entry !== join("view", "theme.ts"))) {
    assert.doesNotMatch(readFileSync(join("src", name), "utf8"), /localStorage|sessionStorage|indexedDB|document\.cookie/, name);
  }
});

test("has no file of more than 700 lines", () => {
  for (const name of SOURCES) {
    assert.ok(readFileSync(join("src", name), "utf8").split("\n").length <= 700, name);
  }
});
