// Texts of the cluster are foreign. Characters that reorder, hide or control text are replaced by visible escapes.

/** Control characters except tab and newline, bidirectional controls, invisible characters, tags, lone surrogates. */
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e0fff}\p{Cs}]/gu;

/** The same characters as JSON text may hold them: raw, or as an escape. */
const HIDDEN_IN_JSON =
  /\\u|\\[bfr]|[\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e0fff}\p{Cs}]/u;

/** Depth of the contract's JSON is below 10. */
const DEPTH_MAX = 32;

/** Returns the text with hidden characters as `\u{202e}`. */
export function visible(text: string): string {
  return text.replace(HIDDEN, (character) => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`);
}

/** Parses JSON whose strings and keys become visible texts. */
export function parseVisible(json: string): unknown {
  const value: unknown = JSON.parse(json);
  return HIDDEN_IN_JSON.test(json) ? withVisibleStrings(value, 0) : value;
}

function withVisibleStrings(value: unknown, depth: number): unknown {
  if (depth > DEPTH_MAX) {
    return null;
  }
  if (typeof value === "string") {
    return visible(value);
  }
  if (Array.isArray(value)) {
    return value.map((entry) => withVisibleStrings(entry, depth + 1));
  }
  if (typeof value === "object" && value !== null) {
    const entries = Object.entries(value).map(([key, entry]) => [visible(key), withVisibleStrings(entry, depth + 1)]);
    return Object.fromEntries(entries);
  }
  return value;
}
