// Colours of the canvas. The style sheet defines them, so both themes have one source.

import type { Health } from "../contract.ts";
import type { Font } from "./canvas-text.ts";

const NAMES = [
  "background",
  "ray",
  "area",
  "area-line",
  "area-active",
  "zone",
  "zone-line",
  "zone-active",
  "ink",
  "muted",
  "accent",
  "panel",
  "line",
  "ok",
  "warning",
  "error",
  "idle",
  "traffic",
] as const;

export type ColourName = (typeof NAMES)[number];
export type Palette = Record<ColourName, string>;

export function readPalette(): Palette {
  const style = getComputedStyle(document.documentElement);
  const entries = NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim() || "#888888"]);
  return Object.fromEntries(entries) as Palette;
}

export function healthColour(palette: Palette, health: Health): string {
  return palette[health];
}

export const FONT_FAMILY = 'Inter, system-ui, "Segoe UI", Roboto, "Helvetica Neue", "Liberation Sans", Arial, sans-serif';

/** Steps of the size of fonts: a browser keeps the fonts of few sizes, and a zoom would use one for each frame. */
const SIZE_STEPS = 4;
const fonts = new Map<string, Font>();

export function font(size: number, weight = 400): Font {
  const stepped = Math.max(1, Math.round(size * SIZE_STEPS)) / SIZE_STEPS;
  const css = `${weight} ${stepped}px ${FONT_FAMILY}`;
  const known = fonts.get(css) ?? { css, size: stepped, weight, family: FONT_FAMILY };
  fonts.set(css, known);
  return known;
}
