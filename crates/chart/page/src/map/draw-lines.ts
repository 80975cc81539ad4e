// Draws lines with moving dashes on the upper layer. The speed of the dashes grows with the connections a second.

import { textWidth } from "./canvas-text.ts";
import { boxById, type Diagram, type Line } from "./diagram.ts";
import { type Camera, type Point, pointToScreen } from "./geometry.ts";
import { roundedRect } from "./glyph.ts";
import type { MapLine } from "./map-lines.ts";
import { font, type Palette } from "./palette.ts";

/** Distance of the dashes, dash and gap. */
const DASH_PIXELS: [number, number] = [7, 9];

interface Stroke {
  from: Point;
  to: Point;
  width: number;
  perSecond: number | null;
  style: Line["style"];
  label?: string;
}

export function drawMapLines(
  context: CanvasRenderingContext2D,
  lines: MapLine[],
  camera: Camera,
  seconds: number,
  palette: Palette,
): void {
  const strokes = lines.map((line) => ({
    ...line,
    from: pointToScreen(line.from, camera),
    to: pointToScreen(line.to, camera),
  }));
  drawStrokes(context, strokes, seconds, palette);
}

export function drawLines(
  context: CanvasRenderingContext2D,
  diagram: Diagram,
  camera: Camera,
  seconds: number,
  palette: Palette,
): void {
  const strokes = diagram.lines.flatMap((line): Stroke[] => {
    const [from, to] = [boxById(diagram, line.from), boxById(diagram, line.to)];
    if (from === undefined || to === undefined) {
      return [];
    }
    const start = pointToScreen({ x: from.x + from.width, y: from.y + from.height / 2 }, camera);
    const end = pointToScreen({ x: to.x, y: to.y + to.height / 2 }, camera);
    return [{ ...line, width: Math.max(1, line.width * Math.min(1, camera.k)), from: start, to: end }];
  });
  drawStrokes(context, strokes, seconds, palette);
}

/** True if a line moves, so that the layer is drawn again. */
export function isMoving(lines: { perSecond: number | null }[]): boolean {
  return lines.some((line) => line.perSecond !== null && line.perSecond > 0);
}

function drawStrokes(context: CanvasRenderingContext2D, strokes: Stroke[], seconds: number, palette: Palette): void {
  for (const stroke of strokes) {
    drawCurve(context, stroke, seconds, palette);
  }
  for (const stroke of strokes) {
    if (stroke.label !== undefined && stroke.label !== "") {
      drawLabel(context, stroke, stroke.label, palette);
    }
  }
  context.setLineDash([]);
  context.globalAlpha = 1;
}

function colourOf(style: Stroke["style"], palette: Palette): string {
  return style === "trace" ? palette.accent : style === "traffic" ? palette.traffic : palette.muted;
}

function drawCurve(context: CanvasRenderingContext2D, stroke: Stroke, seconds: number, palette: Palette): void {
  const { from, to } = stroke;
  const bend = Math.max(24, Math.abs(to.x - from.x) * 0.45);
  const path = new Path2D();
  path.moveTo(from.x, from.y);
  path.bezierCurveTo(from.x + bend, from.y, to.x - bend, to.y, to.x, to.y);
  context.strokeStyle = colourOf(stroke.style, palette);
  context.lineCap = "round";
  context.lineWidth = stroke.width;
  const isDashed = stroke.style === "reach" || stroke.style === "excluded";
  context.setLineDash(isDashed ? [2, 5] : []);
  context.globalAlpha = stroke.style === "trace" ? 0.95 : isDashed ? 0.75 : 0.28;
  context.stroke(path);
  if (!isDashed && stroke.perSecond !== null && stroke.perSecond > 0) {
    const speed = 14 + 16 * Math.log10(1 + stroke.perSecond);
    context.setLineDash(DASH_PIXELS);
    context.lineDashOffset = -((seconds * speed) % (DASH_PIXELS[0] + DASH_PIXELS[1]));
    context.globalAlpha = stroke.style === "trace" ? 0.9 : 0.75;
    context.strokeStyle = stroke.style === "trace" ? palette.panel : palette.traffic;
    context.lineWidth = Math.max(1, stroke.style === "trace" ? stroke.width * 0.4 : stroke.width * 0.7);
    context.stroke(path);
    context.lineDashOffset = 0;
  }
}

function drawLabel(context: CanvasRenderingContext2D, stroke: Stroke, label: string, palette: Palette): void {
  const x = stroke.from.x + (stroke.to.x - stroke.from.x) * 0.62;
  const y = stroke.from.y + (stroke.to.y - stroke.from.y) * 0.68;
  context.setLineDash([]);
  context.globalAlpha = 1;
  const labelFont = font(11, 600);
  const width = textWidth(context, label, labelFont) + 12;
  roundedRect(context, x - width / 2, y - 9, width, 18, 9);
  context.fillStyle = palette.panel;
  context.fill();
  context.lineWidth = 1;
  context.strokeStyle = stroke.style === "trace" ? palette.accent : palette.line;
  context.stroke();
  context.fillStyle = stroke.style === "trace" ? palette.ink : palette.muted;
  context.font = labelFont.css;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillText(label, x, y + 0.5);
}
