// Draws a diagram: frames on the lower layer, boxes on the upper one. `draw-lines.ts` draws the lines between them.

import { drawText } from "./canvas-text.ts";
import type { Box, Diagram, Frame } from "./diagram.ts";
import { drawServiceMark } from "./draw-cluster.ts";
import { type Camera, isVisible, type Rect, type Size, toScreen } from "./geometry.ts";
import { healthPath, roundedRect } from "./glyph.ts";
import { font, healthColour, type Palette } from "./palette.ts";

export function drawDiagramGround(
  context: CanvasRenderingContext2D,
  diagram: Diagram,
  camera: Camera,
  viewport: Size,
  palette: Palette,
): void {
  for (const title of diagram.titles) {
    const rect = toScreen({ ...title, height: 20 }, camera);
    drawText(context, title.text, rect.x, rect.y + rect.height / 2, rect.width, {
      font: font(12.5 * camera.k, 650),
      colour: palette.muted,
    });
  }
  for (const frame of diagram.frames) {
    const rect = toScreen(frame, camera);
    if (isVisible(rect, viewport)) {
      drawFrame(context, frame, rect, camera.k, palette);
    }
  }
}

export function drawDiagramBoxes(
  context: CanvasRenderingContext2D,
  diagram: Diagram,
  camera: Camera,
  viewport: Size,
  palette: Palette,
): void {
  for (const box of diagram.boxes) {
    const rect = toScreen(box, camera);
    if (isVisible(rect, viewport)) {
      drawBox(context, box, rect, camera.k, palette);
      context.globalAlpha = 1;
    }
  }
}

function drawFrame(context: CanvasRenderingContext2D, frame: Frame, rect: Rect, k: number, palette: Palette): void {
  roundedRect(context, rect.x, rect.y, rect.width, rect.height, 12 * k);
  context.fillStyle = frame.level === 0 ? palette.zone : palette["zone-active"];
  context.fill();
  context.lineWidth = 1;
  context.strokeStyle = palette["zone-line"];
  context.stroke();
  const y = rect.y + (frame.level === 0 ? 14 : 13) * k;
  const x = rect.x + 11 * k;
  const noteWidth = frame.note === "" ? 0 : 80 * k;
  const style = {
    font: font((frame.level === 0 ? 11.5 : 12) * k, frame.level === 0 ? 500 : 600),
    colour: frame.level === 0 ? palette.muted : palette.ink,
  };
  drawText(context, frame.title, x, y, rect.width - 22 * k - noteWidth, style);
  if (noteWidth > 0) {
    drawText(context, frame.note, rect.x + rect.width - 11 * k, y, noteWidth, {
      font: font(11 * k),
      colour: palette.muted,
      align: "right",
    });
  }
}

function drawBox(context: CanvasRenderingContext2D, box: Box, rect: Rect, k: number, palette: Palette): void {
  const radius = (box.kind === "service" ? 14 : 9) * k;
  roundedRect(context, rect.x, rect.y, rect.width, rect.height, radius);
  context.fillStyle = box.kind === "frontend" ? palette.area : palette.panel;
  context.fill();
  context.lineWidth = box.isTraced ? 2.2 : box.kind === "service" ? 1.6 : 1;
  context.strokeStyle = strokeColour(box, palette);
  if (box.kind === "summary") {
    context.setLineDash([4, 3]);
  }
  context.stroke();
  context.setLineDash([]);
  context.globalAlpha = box.isDimmed && box.kind !== "service" ? 0.45 : 1;
  if (box.kind === "service") {
    drawServiceHead(context, box, rect, k, palette);
    return;
  }
  const hasMark = box.health !== null;
  const x = rect.x + (hasMark ? 27 : 13) * k;
  const width = rect.x + rect.width - x - 10 * k;
  if (box.health !== null) {
    drawMark(context, box.health, rect.x + 15 * k, rect.y + rect.height / 2, 5 * k, palette);
  }
  const middle = rect.y + rect.height / 2;
  drawText(context, box.title, x, middle - 8.5 * k, width, { font: font(12.5 * k, 600), colour: palette.ink });
  drawText(context, box.lines[0] ?? "", x, middle + 9 * k, width, { font: font(11 * k), colour: palette.muted });
}

function strokeColour(box: Box, palette: Palette): string {
  if (box.isTraced) {
    return palette.accent;
  }
  if (box.health === "error" || box.health === "warning") {
    return healthColour(palette, box.health);
  }
  return box.kind === "service" ? palette.accent : palette["area-line"];
}

function drawServiceHead(context: CanvasRenderingContext2D, box: Box, rect: Rect, k: number, palette: Palette): void {
  const y = rect.y + 26 * k;
  drawServiceMark(context, box.health ?? "ok", rect.x + 32 * k, y + 8 * k, 36 * k, palette);
  const x = rect.x + 60 * k;
  const width = rect.width - 92 * k;
  drawText(context, box.title, x, y, width, { font: font(15 * k, 680), colour: palette.ink });
  drawText(context, box.lines[0] ?? "", x, y + 21 * k, rect.width - 70 * k, { font: font(11.5 * k), colour: palette.muted });
  if (box.health !== null && box.health !== "ok") {
    drawMark(context, box.health, rect.x + rect.width - 20 * k, y, 6 * k, palette);
  }
}

function drawMark(
  context: CanvasRenderingContext2D,
  health: NonNullable<Box["health"]>,
  x: number,
  y: number,
  radius: number,
  palette: Palette,
): void {
  context.beginPath();
  healthPath(context, health, x, y, radius);
  if (health === "idle") {
    context.lineWidth = 1.3;
    context.strokeStyle = palette.idle;
    context.stroke();
  } else {
    context.fillStyle = healthColour(palette, health);
    context.fill();
  }
}
