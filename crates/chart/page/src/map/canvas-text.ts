// Text on the canvas, cut to a width.

/** Bound of the cache: about the texts of one frame of a large cluster. */
const CACHE_ENTRIES_MAX = 8000;
const CHARACTERS_MAX = 300;
const cache = new Map<string, string>();

/** Returns the text, or its longest beginning that fits with an ellipsis. */
export function fitText(context: CanvasRenderingContext2D, text: string, width: number): string {
  const key = `${context.font}|${Math.round(width)}|${text}`;
  const known = cache.get(key);
  if (known !== undefined) {
    return known;
  }
  const fitted = fit(context, text.slice(0, CHARACTERS_MAX), width);
  if (cache.size >= CACHE_ENTRIES_MAX) {
    cache.clear();
  }
  cache.set(key, fitted);
  return fitted;
}

function fit(context: CanvasRenderingContext2D, text: string, width: number): string {
  if (context.measureText(text).width <= width) {
    return text;
  }
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (context.measureText(`${text.slice(0, middle)}…`).width <= width) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low < 2 ? "" : `${text.slice(0, low)}…`;
}

export interface TextStyle {
  font: string;
  colour: string;
  align?: CanvasTextAlign;
}

export function drawText(
  context: CanvasRenderingContext2D,
  text: string,
  x: number,
  y: number,
  width: number,
  style: TextStyle,
): void {
  if (width < 8) {
    return;
  }
  context.font = style.font;
  context.fillStyle = style.colour;
  context.textAlign = style.align ?? "left";
  context.textBaseline = "middle";
  context.fillText(fitText(context, text, width), x, y);
}
