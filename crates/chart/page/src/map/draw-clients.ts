// Draws the column of the clients: a rose of winds, from which lines go out, and boxes of the kinds of clients.

import { groupedNumber } from "../text/format.ts";
import { drawText } from "./canvas-text.ts";
import { type Camera, type Point, type Rect, type Size, toScreen } from "./geometry.ts";
import { roundedRect } from "./glyph.ts";
import { font, type Palette } from "./palette.ts";
import type { ClusterScene } from "./scene.ts";

/** Below this width, the column has no boxes. */
const ENTRANCE_FROM = 100;

export function drawEntrances(context: CanvasRenderingContext2D, scene: ClusterScene, camera: Camera, palette: Palette): void {
  const scale = camera.k;
  if (scene.layout.sea.width < ENTRANCE_FROM || scale <= 0.6) {
    return;
  }
  for (const entrance of entrances(scene)) {
    const box = toScreen(entrance.rect, camera);
    roundedRect(context, box.x, box.y, box.width, box.height, 8 * scale);
    context.fillStyle = palette.panel;
    context.fill();
    context.lineWidth = 1;
    context.strokeStyle = palette["basin-line"];
    context.stroke();
    const size = Math.min(1.4, scale);
    const x = box.x + 10 * scale;
    const width = box.width - 16 * scale;
    drawText(context, entrance.title, x, box.y + 18 * scale, width, { font: font(12 * size, 650), colour: palette.ink });
    entrance.lines.forEach((line, index) => {
      const y = box.y + (36 + 15 * index) * scale;
      drawText(context, line, x, y, width, { font: font(10.5 * size), colour: palette.muted });
    });
  }
}

/** Boxes of the clients: the frontends decide which Services they reach. */
export function entrances(scene: ClusterScene): { kind: "outside" | "inside"; title: string; lines: string[]; rect: Rect }[] {
  const { sea } = scene.layout;
  const [width, height] = [sea.width - 10, 98];
  const rect = (share: number) => ({ x: sea.x, y: sea.y + sea.height * share - height / 2, width, height });
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

/** Sixteen winds, as on a portolan chart. */
export function drawRhumbLines(context: CanvasRenderingContext2D, rose: Point, viewport: Size, palette: Palette): void {
  const reach = viewport.width + viewport.height;
  context.strokeStyle = palette.rhumb;
  context.lineWidth = 1;
  context.beginPath();
  for (let wind = 0; wind < 16; wind += 1) {
    const angle = (wind * Math.PI) / 8;
    context.moveTo(rose.x, rose.y);
    context.lineTo(rose.x + Math.cos(angle) * reach, rose.y + Math.sin(angle) * reach);
  }
  context.stroke();
}

/** Rose of eight winds. It covers the beginnings of the lines. */
export function drawRose(context: CanvasRenderingContext2D, rose: Point, radius: number, palette: Palette): void {
  context.beginPath();
  context.arc(rose.x, rose.y, radius, 0, 2 * Math.PI);
  context.fillStyle = palette.panel;
  context.fill();
  context.lineWidth = 1;
  context.strokeStyle = palette["basin-line"];
  context.stroke();
  for (const [offset, length, colour] of [
    [Math.PI / 4, 0.62, palette["basin-line"]],
    [0, 0.86, palette.muted],
  ] as const) {
    context.beginPath();
    for (let point = 0; point < 4; point += 1) {
      const angle = (point * Math.PI) / 2 + offset;
      context.moveTo(rose.x, rose.y);
      for (const [turn, distance] of [
        [-Math.PI / 4, 0.2],
        [0, length],
        [Math.PI / 4, 0.2],
      ] as const) {
        context.lineTo(rose.x + Math.cos(angle + turn) * distance * radius, rose.y + Math.sin(angle + turn) * distance * radius);
      }
    }
    context.fillStyle = colour;
    context.fill();
  }
}
