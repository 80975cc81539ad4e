// Draws the cluster: namespaces, Services, clients and nodes. Detail depends on the size on the screen.

import type { Health, ServiceRow } from "../contract.ts";
import { HEALTHS, type NamespaceGroup } from "../state/filter.ts";
import { FRONTEND_TITLES, frontendAddress, groupedNumber, readiness, shortNumber, typeTitle } from "../text/format.ts";
import { drawText } from "./canvas-text.ts";
import { drawClientBoxes, drawClientMark, drawRays } from "./draw-clients.ts";
import { drawNodeColumn, drawZone } from "./draw-nodes.ts";
import { type Camera, clamp, isVisible, pointToScreen, type Rect, type Size, toScreen } from "./geometry.ts";
import { healthPath, roundedRect, servicePath, sizeShare } from "./glyph.ts";
import { type NamespaceArea, slotRect } from "./layout.ts";
import { trafficOrigin } from "./map-lines.ts";
import { font, healthColour, type Palette } from "./palette.ts";
import type { ClusterScene } from "./scene.ts";

/** Below this height on the screen, a namespace shows sums instead of Services. */
const SUM_BELOW_PIXELS = 3.2;
const CARD_FROM: Size = { width: 62, height: 19 };
const CLIENT_MARK_PIXELS = 24;
const DIMMED_ALPHA = 0.16;
/** Least radius of a mark. */
const MARK_PIXELS_MIN = 0.8;
/** Steps of the scale between two powers of two, for which marks are kept. */
const MARK_STEPS = 2;
/** Smaller marks are rectangles: their shapes look alike, and rectangles cost the least. */
const SHAPE_FROM_PIXELS = 1.6;
/** A smaller mark of a Service has no inset. */
const INSET_FROM_PIXELS = 16;

/** Lower layer: background, namespaces and the column of the nodes. The lines are above it. */
export function drawClusterGround(
  context: CanvasRenderingContext2D,
  scene: ClusterScene,
  camera: Camera,
  viewport: Size,
  palette: Palette,
): void {
  drawRays(context, pointToScreen(trafficOrigin(scene.layout), camera), viewport, palette);
  for (const area of scene.layout.namespaces) {
    const rect = toScreen(area, camera);
    if (isVisible(rect, viewport)) {
      drawNamespaceGround(context, scene, area, rect, palette);
    }
  }
  drawNodeColumn(context, scene, camera, palette);
}

/** Upper layer: everything that covers the lines. */
export function drawClusterObjects(
  context: CanvasRenderingContext2D,
  scene: ClusterScene,
  camera: Camera,
  viewport: Size,
  palette: Palette,
): void {
  drawClientMark(
    context,
    pointToScreen(trafficOrigin(scene.layout), camera),
    Math.min(CLIENT_MARK_PIXELS, CLIENT_MARK_PIXELS * camera.k),
    palette,
  );
  drawClientBoxes(context, scene, camera, palette);
  for (const zone of scene.layout.zones) {
    if (isVisible(toScreen(zone, camera), viewport)) {
      drawZone(context, scene, zone, camera, viewport, palette);
    }
  }
  for (const area of scene.layout.namespaces) {
    const rect = toScreen(area, camera);
    if (isVisible(rect, viewport)) {
      drawNamespace(context, scene, area, rect, camera, viewport, palette);
    }
  }
}

function drawNamespaceGround(
  context: CanvasRenderingContext2D,
  scene: ClusterScene,
  area: NamespaceArea,
  rect: Rect,
  palette: Palette,
): void {
  const isActive = scene.selection.kind === "namespace" && scene.selection.name === area.name;
  roundedRect(context, rect.x, rect.y, rect.width, rect.height, 10);
  context.fillStyle = palette.area;
  context.fill();
  context.lineWidth = isActive ? 2 : 1;
  context.strokeStyle = isActive ? palette.accent : palette["area-line"];
  context.stroke();
}

function drawNamespace(
  context: CanvasRenderingContext2D,
  scene: ClusterScene,
  area: NamespaceArea,
  rect: Rect,
  camera: Camera,
  viewport: Size,
  palette: Palette,
): void {
  const group = scene.groups.get(area.name);
  drawNamespaceHeader(context, area, rect, camera, palette, group);
  if (area.cell.height * camera.k < SUM_BELOW_PIXELS && group !== undefined) {
    drawSums(context, group, rect, area.headerHeight * camera.k, palette);
  } else if (area.cell.height * camera.k >= CARD_FROM.height && area.cell.width * camera.k >= CARD_FROM.width) {
    drawCards(context, scene, area, camera, viewport, palette);
  } else {
    drawMarks(context, scene, area, camera, palette);
  }
}

function drawNamespaceHeader(
  context: CanvasRenderingContext2D,
  area: NamespaceArea,
  rect: Rect,
  camera: Camera,
  palette: Palette,
  group: NamespaceGroup | undefined,
): void {
  const height = area.headerHeight * camera.k;
  if (height < 9 || rect.width < 30) {
    return;
  }
  const size = Math.min(17, Math.max(Math.min(13, height * 0.62), height * 0.3));
  // The header stays in view while a part of the namespace is left of or above the viewport.
  const x = Math.max(rect.x, 0) + Math.min(10, rect.width * 0.05);
  const y = rect.y + height / 2 + 0.5;
  const count = group === undefined ? "" : groupedNumber(group.services.length);
  const right = rect.x + rect.width - Math.min(10, rect.width * 0.05);
  const countWidth = rect.width > 70 ? 34 : 0;
  drawText(context, area.name, x, y, right - x - countWidth, { font: font(size, 650), colour: palette.ink });
  if (countWidth > 0) {
    drawText(context, count, right, y, countWidth + 10, {
      font: font(Math.max(8, size - 1.5)),
      colour: palette.muted,
      align: "right",
    });
  }
}

/** Sum of a namespace: one bar with the shares of the healths. */
function drawSums(
  context: CanvasRenderingContext2D,
  group: NamespaceGroup,
  rect: Rect,
  headerHeight: number,
  palette: Palette,
): void {
  const inner = { x: rect.x + 4, y: rect.y + headerHeight + 2, width: rect.width - 8, height: rect.height - headerHeight - 6 };
  let x = inner.x;
  for (const health of HEALTHS) {
    const width = (inner.width * group.healths[health]) / group.services.length;
    context.fillStyle = healthColour(palette, health);
    context.globalAlpha = 0.75;
    context.fillRect(x, inner.y, width, inner.height);
    x += width;
  }
  context.globalAlpha = 1;
}

/** Marks of a namespace in world coordinates, so that a movement of the camera draws the same paths again. */
interface Marks {
  services: ClusterScene["services"];
  matches: ClusterScene["matches"];
  step: number;
  paths: Map<string, Path2D>;
}

const marksByNamespace = new WeakMap<NamespaceArea, Marks>();

/** Small marks: one path for each health, so that thousands of Services cost four fills. */
function drawMarks(
  context: CanvasRenderingContext2D,
  scene: ClusterScene,
  area: NamespaceArea,
  camera: Camera,
  palette: Palette,
): void {
  const paths = marksOf(scene, area, camera);
  context.save();
  context.translate(camera.x, camera.y);
  context.scale(camera.k, camera.k);
  // The most urgent health is drawn last, on top.
  for (const health of [...HEALTHS].reverse()) {
    for (const isDimmed of [true, false]) {
      const path = paths.get(markKey(health, isDimmed));
      if (path !== undefined) {
        context.globalAlpha = isDimmed ? DIMMED_ALPHA : 1;
        paintMark(context, path, health, 1 / camera.k, palette);
      }
    }
  }
  context.restore();
}

function markKey(health: Health, isDimmed: boolean): string {
  return `${health}${isDimmed ? "-" : "+"}`;
}

/** Paths of the marks. The smallest size on the screen depends on the scale, so each step of the scale has paths of its own. */
function marksOf(scene: ClusterScene, area: NamespaceArea, camera: Camera): Map<string, Path2D> {
  const step = Math.round(Math.log2(camera.k) * MARK_STEPS);
  const known = marksByNamespace.get(area);
  if (known !== undefined && known.services === scene.services && known.matches === scene.matches && known.step === step) {
    return known.paths;
  }
  const scale = 2 ** (step / MARK_STEPS);
  const paths = new Map<string, Path2D>();
  area.slots.forEach((key, slot) => {
    const row = key === null ? undefined : scene.services.get(key);
    if (key === null || row === undefined) {
      return;
    }
    const cell = slotRect(area, slot);
    const radius = Math.min(cell.width, cell.height) * 0.5 * sizeShare(row.total) * (row.health === "ok" ? 0.95 : 1);
    const name = markKey(row.health, scene.matches !== null && !scene.matches.has(key));
    const path = paths.get(name) ?? new Path2D();
    paths.set(name, path);
    const [x, y] = [cell.x + cell.width / 2, cell.y + cell.height / 2];
    healthPath(path, row.health, x, y, Math.max(MARK_PIXELS_MIN / scale, radius), SHAPE_FROM_PIXELS / scale);
  });
  marksByNamespace.set(area, { services: scene.services, matches: scene.matches, step, paths });
  return paths;
}

function paintMark(context: CanvasRenderingContext2D, path: Path2D, health: Health, lineWidth: number, palette: Palette): void {
  if (health === "idle") {
    context.lineWidth = lineWidth;
    context.strokeStyle = palette.idle;
    context.stroke(path);
  } else {
    context.fillStyle = healthColour(palette, health);
    context.fill(path);
  }
}

interface Card {
  row: ServiceRow;
  box: Rect;
  isActive: boolean;
}

function drawCards(
  context: CanvasRenderingContext2D,
  scene: ClusterScene,
  area: NamespaceArea,
  camera: Camera,
  viewport: Size,
  palette: Palette,
): void {
  const [shown, dimmed]: [Card[], Card[]] = [[], []];
  area.slots.forEach((key, slot) => {
    const cell = toScreen(slotRect(area, slot), camera);
    if (!isVisible(cell, viewport)) {
      return;
    }
    const row = key === null ? undefined : scene.services.get(key);
    if (key === null || row === undefined) {
      return;
    }
    const gap = Math.min(4, cell.height * 0.06);
    const box = { x: cell.x + gap, y: cell.y + gap, width: cell.width - 2 * gap, height: cell.height - 2 * gap };
    const isActive = scene.selection.kind === "service" && scene.selection.key === key;
    const isDimmed = scene.matches !== null && !scene.matches.has(key);
    (isDimmed ? dimmed : shown).push({ row, box, isActive });
  });
  for (const [cards, alpha] of [
    [shown, 1],
    [dimmed, DIMMED_ALPHA],
  ] as const) {
    context.globalAlpha = alpha;
    drawBoxes(context, cards, palette);
    for (const card of cards) {
      drawCard(context, card, palette);
    }
  }
  context.globalAlpha = 1;
}

/** Boxes of cards: one path for each outline, so that hundreds of cards cost a few fills and strokes. */
function drawBoxes(context: CanvasRenderingContext2D, cards: readonly Card[], palette: Palette): void {
  const panels = new Path2D();
  const outlines = new Map<string, { path: Path2D; colour: string; width: number }>();
  for (const { row, box, isActive } of cards) {
    const isMarked = row.health === "error" || row.health === "warning";
    const colour = isActive ? palette.accent : isMarked ? healthColour(palette, row.health) : palette["area-line"];
    const width = isActive ? 2 : 1;
    const outline = outlines.get(`${colour}|${width}`) ?? { path: new Path2D(), colour, width };
    outlines.set(`${colour}|${width}`, outline);
    panels.roundRect(box.x, box.y, box.width, box.height, Math.min(7, box.width / 2, box.height / 2));
    outline.path.roundRect(box.x, box.y, box.width, box.height, Math.min(7, box.width / 2, box.height / 2));
  }
  context.fillStyle = palette.panel;
  context.fill(panels);
  for (const { path, colour, width } of outlines.values()) {
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.stroke(path);
  }
}

function drawCard(context: CanvasRenderingContext2D, { row, box }: Card, palette: Palette): void {
  const colour = healthColour(palette, row.health);
  const scale = clamp(box.height / 92, 1, 1.5);
  const lineHeight = 15 * scale;
  const lines = cardLines(row).slice(0, Math.max(0, Math.floor((box.height - 21 * scale) / lineHeight)));
  const top = box.y + (box.height - lines.length * lineHeight) / 2;
  const markWidth = Math.min(38 * scale, box.width * 0.24);
  drawServiceMark(context, row.health, box.x + 6 * scale + markWidth / 2, top + 0.5, markWidth * sizeShare(row.total), palette);
  const x = box.x + 13 * scale + markWidth;
  const isMarked = row.health === "error" || row.health === "warning";
  const size = box.height < 22 ? 11 : 12.5 * scale;
  const nameWidth = box.x + box.width - x - (isMarked ? 19 : 6) * scale;
  drawText(context, row.name, x, top + 0.5, nameWidth, { font: font(size, 600), colour: palette.ink });
  if (isMarked) {
    context.beginPath();
    healthPath(context, row.health, box.x + box.width - 11 * scale, top, 4.6 * scale);
    context.fillStyle = colour;
    context.fill();
  }
  lines.forEach((line, index) => {
    const y = top + 16.5 * scale + index * lineHeight;
    const lineColour = index === 0 && isMarked ? colour : palette.muted;
    drawText(context, line, x, y, box.x + box.width - x - 5, { font: font(11 * scale), colour: lineColour });
  });
}

export function drawServiceMark(
  context: CanvasRenderingContext2D,
  health: Health,
  x: number,
  y: number,
  length: number,
  palette: Palette,
): void {
  const alpha = context.globalAlpha;
  context.beginPath();
  servicePath(context, x, y, length, length * 0.46);
  if (health === "idle") {
    context.lineWidth = 1.3;
    context.strokeStyle = palette.idle;
    context.stroke();
  } else {
    context.fillStyle = healthColour(palette, health);
    context.fill();
    if (length >= INSET_FROM_PIXELS) {
      context.fillStyle = palette.panel;
      context.globalAlpha *= 0.8;
      context.fillRect(x + length * 0.2, y - length * 0.1, length * 0.14, length * 0.2);
      context.globalAlpha = alpha;
    }
  }
}

function cardLines(row: ServiceRow): string[] {
  const frontends = row.frontends.map((frontend) =>
    frontend.kind === "nodePort" ? `${FRONTEND_TITLES.nodePort} ${frontend.port}` : frontendAddress(frontend),
  );
  const state = row.health === "idle" && row.total === 0 ? "idle" : readiness(row);
  const lines = [state, typeTitle(row), frontends.join(", ")];
  if (row.traffic !== null) {
    lines.splice(1, 0, `${shortNumber(row.traffic.connectionsPerSecond)} conn./s`);
  }
  return lines.filter((line) => line !== "");
}
