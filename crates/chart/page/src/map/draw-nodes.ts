// Draws the column of the nodes, by zone.

import type { NodeRow } from "../contract.ts";
import { groupedNumber, shortNumber } from "../text/format.ts";
import { drawText } from "./canvas-text.ts";
import { type Camera, isVisible, type Rect, type Size, toScreen } from "./geometry.ts";
import { healthPath, roundedRect } from "./glyph.ts";
import type { ZoneBlock } from "./layout.ts";
import { font, healthColour, type Palette } from "./palette.ts";
import type { ClusterScene } from "./scene.ts";

export function drawNodeColumn(context: CanvasRenderingContext2D, scene: ClusterScene, camera: Camera, palette: Palette): void {
  if (scene.layout.nodeColumn === null) {
    return;
  }
  const column = toScreen(scene.layout.nodeColumn, camera);
  roundedRect(context, column.x, column.y, column.width, column.height, 12);
  context.fillStyle = palette.zone;
  context.fill();
  context.lineWidth = 1;
  context.strokeStyle = palette["zone-line"];
  context.stroke();
  const headerY = column.y + 18 * camera.k;
  if (camera.k > 0.6) {
    const style = { font: font(Math.min(13, 13 * camera.k), 650), colour: palette.ink };
    drawText(context, "Nodes", column.x + 14 * camera.k, headerY, column.width / 2, style);
    const count = groupedNumber(scene.nodes.size);
    drawText(context, count, column.x + column.width - 14 * camera.k, headerY, column.width / 2, {
      font: font(11.5),
      colour: palette.muted,
      align: "right",
    });
  }
}

export function drawZone(
  context: CanvasRenderingContext2D,
  scene: ClusterScene,
  zone: ZoneBlock,
  camera: Camera,
  viewport: Size,
  palette: Palette,
): void {
  const rect = toScreen(zone, camera);
  roundedRect(context, rect.x, rect.y, rect.width, rect.height, 8);
  context.strokeStyle = palette["zone-line"];
  context.stroke();
  const header = zone.headerHeight * camera.k;
  if (header >= 9) {
    const title = zone.name === "" ? "no zone" : `zone ${zone.name}`;
    drawText(context, title, rect.x + 8, rect.y + header / 2 + 1, rect.width - 16, {
      font: font(Math.min(11.5, header * 0.7)),
      colour: palette.muted,
    });
  }
  for (const cell of zone.nodes) {
    const node = scene.nodes.get(cell.name);
    const box = toScreen(cell, camera);
    if (node !== undefined && isVisible(box, viewport)) {
      drawNode(context, scene, node, box, palette);
    }
  }
}

function drawNode(context: CanvasRenderingContext2D, scene: ClusterScene, node: NodeRow, box: Rect, palette: Palette): void {
  const isActive = scene.selection.kind === "node" && scene.selection.name === node.name;
  const isLabelled = box.height >= 13 && box.width >= 60;
  const gap = Math.min(2, box.height * 0.08);
  if (isLabelled || isActive) {
    roundedRect(context, box.x + gap, box.y + gap, box.width - 2 * gap, box.height - 2 * gap, 5);
    context.fillStyle = isActive ? palette["zone-active"] : palette.panel;
    context.fill();
  }
  if (isActive) {
    context.lineWidth = 2;
    context.strokeStyle = palette.accent;
    context.stroke();
  }
  const radius = Math.min(4.5, box.height * 0.28);
  const middle = box.y + box.height / 2;
  context.beginPath();
  healthPath(context, node.health, isLabelled ? box.x + 12 : box.x + box.width / 2, middle, radius);
  if (node.health === "idle") {
    context.strokeStyle = palette.idle;
    context.lineWidth = 1;
    context.stroke();
  } else {
    context.fillStyle = healthColour(palette, node.health);
    context.fill();
  }
  if (isLabelled) {
    const size = Math.min(12, box.height * 0.6);
    drawText(context, node.name, box.x + 22, middle + 0.5, box.width - 62, { font: font(size, 500), colour: palette.ink });
    const count = shortNumber(node.endpoints);
    drawText(context, count, box.x + box.width - 8, middle + 0.5, 34, {
      font: font(Math.min(11, size)),
      colour: palette.muted,
      align: "right",
    });
  }
}
