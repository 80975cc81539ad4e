// Subset of Markdown that the documentation of findings uses: headings, paragraphs, lists, tables, code blocks, and in
// lines code, strong, emphasis and links. The result is a tree; nothing becomes HTML text.

export type Inline =
  | { kind: "text"; text: string }
  | { kind: "code"; text: string }
  | { kind: "strong"; text: string }
  | { kind: "emphasis"; text: string }
  | { kind: "link"; text: string; target: string };

export type Block =
  | { kind: "heading"; level: number; content: Inline[] }
  | { kind: "paragraph"; content: Inline[] }
  | { kind: "list"; isOrdered: boolean; items: Inline[][] }
  | { kind: "table"; header: Inline[][]; rows: Inline[][][] }
  | { kind: "code"; text: string };

/** The server sends at most 8 KiB; longer text is cut. */
const TEXT_CHARACTERS_MAX = 16_384;

export function parseMarkdown(text: string): Block[] {
  const lines = text.slice(0, TEXT_CHARACTERS_MAX).split("\n");
  const blocks: Block[] = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at] ?? "";
    if (line.trim() === "") {
      at += 1;
      continue;
    }
    const parsed =
      fencedCode(lines, at) ??
      indentedCode(lines, at) ??
      heading(line, at) ??
      table(lines, at) ??
      list(lines, at) ??
      paragraph(lines, at);
    blocks.push(parsed.block);
    at = parsed.next;
  }
  return blocks;
}

interface Parsed {
  block: Block;
  next: number;
}

function fencedCode(lines: string[], start: number): Parsed | null {
  const fence = /^\s{0,3}(```+|~~~+)/.exec(lines[start] ?? "")?.[1];
  if (fence === undefined) {
    return null;
  }
  let end = start + 1;
  while (end < lines.length && !(lines[end] ?? "").trim().startsWith(fence)) {
    end += 1;
  }
  return { block: { kind: "code", text: lines.slice(start + 1, end).join("\n") }, next: end + 1 };
}

function indentedCode(lines: string[], start: number): Parsed | null {
  const isCode = (line: string) => line.startsWith("    ") || line.startsWith("\t");
  if (!isCode(lines[start] ?? "")) {
    return null;
  }
  let end = start;
  while (end < lines.length && (isCode(lines[end] ?? "") || ((lines[end] ?? "").trim() === "" && isCode(lines[end + 1] ?? "")))) {
    end += 1;
  }
  const text = lines.slice(start, end).map((line) => line.replace(/^( {4}|\t)/, ""));
  return { block: { kind: "code", text: text.join("\n") }, next: end };
}

function heading(line: string, start: number): Parsed | null {
  const match = /^(#{1,6})\s+(.*?)\s*#*$/.exec(line);
  if (match === null) {
    return null;
  }
  return { block: { kind: "heading", level: match[1]?.length ?? 1, content: parseInline(match[2] ?? "") }, next: start + 1 };
}

function cells(line: string): Inline[][] {
  const inner = line.trim().replace(/^\|/, "").replace(/\|$/, "");
  return inner.split("|").map((cell) => parseInline(cell.trim()));
}

function table(lines: string[], start: number): Parsed | null {
  const isRow = (line: string | undefined) => line?.trim().startsWith("|") ?? false;
  if (!isRow(lines[start]) || !/^\s*\|[\s:|-]+\|?\s*$/.test(lines[start + 1] ?? "")) {
    return null;
  }
  let end = start + 2;
  while (isRow(lines[end])) {
    end += 1;
  }
  return { block: { kind: "table", header: cells(lines[start] ?? ""), rows: lines.slice(start + 2, end).map(cells) }, next: end };
}

const ITEM = /^\s{0,3}(?:([-*+])|\d{1,3}[.)])\s+(.*)$/;

function list(lines: string[], start: number): Parsed | null {
  const first = ITEM.exec(lines[start] ?? "");
  if (first === null) {
    return null;
  }
  const items: string[] = [];
  let end = start;
  for (; end < lines.length; end += 1) {
    const line = lines[end] ?? "";
    const item = ITEM.exec(line);
    if (item !== null) {
      items.push(item[2] ?? "");
    } else if (/^\s+\S/.test(line)) {
      items[items.length - 1] += ` ${line.trim()}`;
    } else {
      break;
    }
  }
  return { block: { kind: "list", isOrdered: first[1] === undefined, items: items.map(parseInline) }, next: end };
}

function paragraph(lines: string[], start: number): Parsed {
  let end = start + 1;
  while (end < lines.length) {
    const line = lines[end] ?? "";
    if (line.trim() === "" || /^(#{1,6}\s|\s{0,3}(```|~~~))/.test(line) || ITEM.test(line)) {
      break;
    }
    end += 1;
  }
  const text = lines.slice(start, end).map((line) => line.trim());
  return { block: { kind: "paragraph", content: parseInline(text.join(" ")) }, next: end };
}

const INLINE = /(`+)([^`]+)\1|\*\*([^*]+)\*\*|\*([^*\s][^*]*)\*|\[([^\]]+)\]\(([^)\s]*)\)/g;

export function parseInline(text: string): Inline[] {
  const parts: Inline[] = [];
  let at = 0;
  const plain = (end: number) => {
    if (end > at) {
      parts.push({ kind: "text", text: text.slice(at, end) });
    }
  };
  for (const match of text.matchAll(INLINE)) {
    plain(match.index);
    const [whole, , code, strong, emphasis, label, target] = match;
    if (code !== undefined) {
      parts.push({ kind: "code", text: code });
    } else if (strong !== undefined) {
      parts.push({ kind: "strong", text: strong });
    } else if (emphasis !== undefined) {
      parts.push({ kind: "emphasis", text: emphasis });
    } else {
      parts.push(link(label ?? "", target ?? ""));
    }
    at = match.index + whole.length;
  }
  plain(text.length);
  return parts;
}

/** Only https links are followed. Links between pages of the documentation become text. */
function link(text: string, target: string): Inline {
  return /^https:\/\/[^\s]+$/.test(target) ? { kind: "link", text, target } : { kind: "text", text };
}
