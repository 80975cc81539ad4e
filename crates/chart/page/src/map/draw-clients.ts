// Draws the column of the clients: a mark, from which the lines of traffic start, and boxes of the kinds of clients.

import { groupedNumber } from "../text/format.ts";
import { drawText } from "./canvas-text.ts";
import { type Camera, type Point, type Rect, type Size, toScreen } from "./geometry.ts";
import { roundedRect } from "./glyph.ts";
import { font, type Palette } from "./palette.ts";
import type { ClusterScene } from "./scene.ts";

/** Below this width, the column has no boxes. */
const CLIENT_BOXES_FROM = 100;

export function drawClientBoxes(context: CanvasRenderingContext2D, scene: ClusterScene, camera: Camera, palette: Palette): void {
  const scale = camera.k;
  if (scene.layout.clientColumn.width < CLIENT_BOXES_FROM || scale <= 0.6) {
    return;
  }
  for (const clientBox of clientBoxes(scene)) {
    const box = toScreen(clientBox.rect, camera);
    roundedRect(context, box.x, box.y, box.width, box.height, 8 * scale);
    context.fillStyle = palette.panel;
    context.fill();
    context.lineWidth = 1;
    context.strokeStyle = palette["area-line"];
    context.stroke();
    const size = Math.min(1.4, scale);
    const x = box.x + 10 * scale;
    const width = box.width - 16 * scale;
    drawText(context, clientBox.title, x, box.y + 18 * scale, width, { font: font(12 * size, 650), colour: palette.ink });
    clientBox.lines.forEach((line, index) => {
      const y = box.y + (36 + 15 * index) * scale;
      drawText(context, line, x, y, width, { font: font(10.5 * size), colour: palette.muted });
    });
  }
}

/** Boxes of the clients: the frontends decide which Services they reach. */
export function clientBoxes(scene: ClusterScene): { kind: "outside" | "inside"; title: string; lines: string[]; rect: Rect }[] {
  const { clientColumn } = scene.layout;
  const [width, height] = [clientColumn.width - 10, 98];
  const rect = (share: number) => ({
    x: clientColumn.x,
    y: clientColumn.y + clientColumn.height * share - height / 2,
    width,
    height,
  });
  return [
    {
      kind: "outside",
      title: "External clients",
      lines: [`reach ${groupedNumber(scene.reach.outside)} Services`, "load balancer", "node port", "external IP"],
      rect: rect(0.27),
    },
    {
      kind: "inside",
      title: "Pods and nodes",
      lines: [`reach ${groupedNumber(scene.reach.inside)} Services`, "cluster IP", "headless", "external name"],
      rect: rect(0.73),
    },
  ];
}

/** Sixteen rays in the background, from the point where the lines of traffic start. */
export function drawRays(context: CanvasRenderingContext2D, origin: Point, viewport: Size, palette: Palette): void {
  const reach = viewport.width + viewport.height;
  context.strokeStyle = palette.ray;
  context.lineWidth = 1;
  context.beginPath();
  for (let ray = 0; ray < 16; ray += 1) {
    const angle = (ray * Math.PI) / 8;
    context.moveTo(origin.x, origin.y);
    context.lineTo(origin.x + Math.cos(angle) * reach, origin.y + Math.sin(angle) * reach);
  }
  context.stroke();
}

/** Star of eight points. It covers the beginnings of the lines. */
export function drawClientMark(context: CanvasRenderingContext2D, origin: Point, radius: number, palette: Palette): void {
  context.beginPath();
  context.arc(origin.x, origin.y, radius, 0, 2 * Math.PI);
  context.fillStyle = palette.panel;
  context.fill();
  context.lineWidth = 1;
  context.strokeStyle = palette["area-line"];
  context.stroke();
  for (const [offset, length, colour] of [
    [Math.PI / 4, 0.62, palette["area-line"]],
    [0, 0.86, palette.muted],
  ] as const) {
    context.beginPath();
    for (let point = 0; point < 4; point += 1) {
      const angle = (point * Math.PI) / 2 + offset;
      context.moveTo(origin.x, origin.y);
      for (const [turn, distance] of [
        [-Math.PI / 4, 0.2],
        [0, length],
        [Math.PI / 4, 0.2],
      ] as const) {
        context.lineTo(
          origin.x + Math.cos(angle + turn) * distance * radius,
          origin.y + Math.sin(angle + turn) * distance * radius,
        );
      }
    }
    context.fillStyle = colour;
    context.fill();
  }
}
