import assert from "node:assert/strict";
import { test } from "node:test";
import { parseInline, parseMarkdown } from "../../src/text/markdown.ts";

test("parses headings, paragraphs, lists, tables and code", () => {
  const blocks = parseMarkdown(
    "### Remedy\n\nOne\ntwo.\n\n- a\n  b\n- c\n\n1. x\n2. y\n\n| A | B |\n|---|---|\n| 1 | 2 |\n\n    $ kubectl get\n    svc\n\n```sh\nls\n```\n",
  );
  assert.deepEqual(
    blocks.map((block) => block.kind),
    ["heading", "paragraph", "list", "list", "table", "code", "code"],
  );
  assert.deepEqual(blocks[1], { kind: "paragraph", content: [{ kind: "text", text: "One two." }] });
  assert.deepEqual(blocks[2], {
    kind: "list",
    isOrdered: false,
    items: [[{ kind: "text", text: "a b" }], [{ kind: "text", text: "c" }]],
  });
  assert.deepEqual(blocks[5], { kind: "code", text: "$ kubectl get\nsvc" });
  assert.deepEqual(blocks[6], { kind: "code", text: "ls" });
});

test("parses code, strong, emphasis and https links in a line", () => {
  assert.deepEqual(parseInline("a `b` **c** *d* [e](https://kubernetes.io/docs)"), [
    { kind: "text", text: "a " },
    { kind: "code", text: "b" },
    { kind: "text", text: " " },
    { kind: "strong", text: "c" },
    { kind: "text", text: " " },
    { kind: "emphasis", text: "d" },
    { kind: "text", text: " " },
    { kind: "link", text: "e", target: "https://kubernetes.io/docs" },
  ]);
});

test("turns other links into text", () => {
  for (const target of [
    "javascript:alert`1`",
    "data:text/html,x",
    "http://a",
    "trace.md",
    "//evil",
    "JAVASCRIPT:x",
    "https:evil",
  ]) {
    assert.deepEqual(parseInline(`[a](${target})`), [{ kind: "text", text: "a" }], target);
  }
});

test("keeps markup as text", () => {
  assert.deepEqual(parseInline("<img src=x onerror=alert(1)>"), [{ kind: "text", text: "<img src=x onerror=alert(1)>" }]);
});

test("ends for unclosed and degenerate input", () => {
  for (const text of [
    "```",
    "|",
    "|\n|-",
    "`".repeat(5000),
    "*".repeat(5000),
    "[".repeat(5000),
    "- ".repeat(5000),
    "#".repeat(5000),
    "    ",
    "\t",
  ]) {
    assert.ok(Array.isArray(parseMarkdown(text)));
  }
});

test("cuts text above the limit", () => {
  const [block] = parseMarkdown("a".repeat(100_000));
  assert.equal(block?.kind === "paragraph" && block.content[0]?.kind === "text" && block.content[0].text.length, 16_384);
});
