// Text on the canvas, cut to a width.

/** Size at which widths of characters are measured. Widths are proportional to the size. */
const MEASURED_PIXELS = 32;
/** Bound of the cache: about the texts of one frame of a large cluster, in two weights. */
const CACHE_ENTRIES_MAX = 16_000;
const CHARACTERS_MAX = 300;
const ELLIPSIS = "…";
/** Widths of texts and characters at `MEASURED_PIXELS`, by weight and text. */
const cache = new Map<string, number>();

export interface Font {
  css: string;
  size: number;
  weight: number;
  family: string;
}

/** Width at `MEASURED_PIXELS`. A text is measured once, and not again for each size. */
function measuredWidth(context: CanvasRenderingContext2D, text: string, style: Font): number {
  const key = `${style.weight}|${text}`;
  const known = cache.get(key);
  if (known !== undefined) {
    return known;
  }
  if (cache.size >= CACHE_ENTRIES_MAX) {
    cache.clear();
  }
  context.font = `${style.weight} ${MEASURED_PIXELS}px ${style.family}`;
  const width = context.measureText(text).width;
  cache.set(key, width);
  return width;
}

/** Width of a text. Sets another font of the context. */
export function textWidth(context: CanvasRenderingContext2D, text: string, style: Font): number {
  return (measuredWidth(context, text.slice(0, CHARACTERS_MAX), style) * style.size) / MEASURED_PIXELS;
}

/** Returns the text, or its longest beginning that fits with an ellipsis. Sets another font of the context. */
export function fitText(context: CanvasRenderingContext2D, text: string, width: number, style: Font): string {
  const shown = text.slice(0, CHARACTERS_MAX);
  const available = (width * MEASURED_PIXELS) / style.size;
  if (measuredWidth(context, shown, style) <= available) {
    return shown;
  }
  let used = measuredWidth(context, ELLIPSIS, style);
  let cut = 0;
  for (const character of shown) {
    used += measuredWidth(context, character, style);
    if (used > available) {
      break;
    }
    cut += character.length;
  }
  return cut < 2 ? "" : `${shown.slice(0, cut)}${ELLIPSIS}`;
}

export interface TextStyle {
  font: Font;
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
  const fitted = fitText(context, text, width, style.font);
  if (fitted === "") {
    return;
  }
  context.font = style.font.css;
  context.fillStyle = style.colour;
  context.textAlign = style.align ?? "left";
  context.textBaseline = "middle";
  context.fillText(fitted, x, y);
}
