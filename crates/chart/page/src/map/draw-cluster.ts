// Draws the cluster: districts, berths, clients and nodes. Detail depends on the size on the screen.

import type { Health, NodeRow, ServiceRow } from "../contract.ts";
import { HEALTHS, type NamespaceGroup } from "../state/filter.ts";
import type { Selection, ServiceKey } from "../state/state.ts";
import { FRONTEND_TITLES, frontendAddress, groupedNumber, readiness, shortNumber, typeTitle } from "../text/format.ts";
import { drawText } from "./canvas-text.ts";
import { type Camera, isVisible, type Rect, type Size, toScreen } from "./geometry.ts";
import { healthPath, hullPath, roundedRect, sizeShare } from "./glyph.ts";
import { type District, type MapLayout, slotRect, type ZoneBlock } from "./layout.ts";
import { font, healthColour, type Palette } from "./palette.ts";

export interface ClusterScene {
  layout: MapLayout;
  services: ReadonlyMap<ServiceKey, ServiceRow>;
  nodes: ReadonlyMap<string, NodeRow>;
  groups: ReadonlyMap<string, NamespaceGroup>;
  /** Services that the filter matches; `null` without a filter. */
  matches: ReadonlySet<ServiceKey> | null;
  selection: Selection;
  reach: { outside: number; inside: number };
}

/** Below this height on the screen, a district shows sums instead of Services. */
const SUM_BELOW_PIXELS = 3.2;
const CARD_FROM: Size = { width: 62, height: 19 };
const DIMMED_ALPHA = 0.16;

export function drawCluster(
  context: CanvasRenderingContext2D,
  scene: ClusterScene,
  camera: Camera,
  viewport: Size,
  palette: Palette,
): void {
  drawSea(context, scene, camera, viewport, palette);
  drawLand(context, scene, camera, viewport, palette);
  for (const place of scene.layout.districts) {
    const rect = toScreen(place, camera);
    if (isVisible(rect, viewport)) {
      drawDistrict(context, scene, place, rect, camera, viewport, palette);
    }
  }
}

function drawDistrict(
  context: CanvasRenderingContext2D,
  scene: ClusterScene,
  place: District,
  rect: Rect,
  camera: Camera,
  viewport: Size,
  palette: Palette,
): void {
  const group = scene.groups.get(place.name);
  const isActive = scene.selection.kind === "namespace" && scene.selection.name === place.name;
  roundedRect(context, rect.x, rect.y, rect.width, rect.height, 10);
  context.fillStyle = palette.basin;
  context.fill();
  context.lineWidth = isActive ? 2 : 1;
  context.strokeStyle = isActive ? palette.accent : palette["basin-line"];
  context.stroke();
  drawDistrictHeader(context, place, rect, camera, palette, group);
  if (place.cell.height * camera.k < SUM_BELOW_PIXELS && group !== undefined) {
    drawSums(context, group, rect, place.headerHeight * camera.k, palette);
  } else if (place.cell.height * camera.k >= CARD_FROM.height && place.cell.width * camera.k >= CARD_FROM.width) {
    drawCards(context, scene, place, camera, viewport, palette);
  } else {
    drawMarks(context, scene, place, camera, palette);
  }
}

function drawDistrictHeader(
  context: CanvasRenderingContext2D,
  place: District,
  rect: Rect,
  camera: Camera,
  palette: Palette,
  group: NamespaceGroup | undefined,
): void {
  const height = place.headerHeight * camera.k;
  if (height < 9 || rect.width < 30) {
    return;
  }
  const size = Math.min(13, height * 0.62);
  // The header stays in view while a part of the district is left of or above the viewport.
  const x = Math.max(rect.x, 0) + Math.min(10, rect.width * 0.05);
  const y = rect.y + height / 2 + 0.5;
  const count = group === undefined ? "" : groupedNumber(group.services.length);
  const right = rect.x + rect.width - Math.min(10, rect.width * 0.05);
  const countWidth = rect.width > 70 ? 34 : 0;
  drawText(context, place.name, x, y, right - x - countWidth, { font: font(size, 650), colour: palette.ink });
  if (countWidth > 0) {
    drawText(context, count, right, y, countWidth + 10, {
      font: font(Math.max(8, size - 1.5)),
      colour: palette.muted,
      align: "right",
    });
  }
}

/** Sum of a district: one bar with the shares of the healths. */
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

/** Small marks: one path for each health, so that thousands of Services cost four fills. */
function drawMarks(
  context: CanvasRenderingContext2D,
  scene: ClusterScene,
  place: District,
  camera: Camera,
  palette: Palette,
): void {
  const paths = new Map<string, Path2D>();
  const pathOf = (health: Health, isDimmed: boolean) => {
    const key = `${health}${isDimmed ? "-" : "+"}`;
    const path = paths.get(key) ?? new Path2D();
    paths.set(key, path);
    return path;
  };
  place.slots.forEach((key, slot) => {
    const row = key === null ? undefined : scene.services.get(key);
    if (key === null || row === undefined) {
      return;
    }
    const cell = toScreen(slotRect(place, slot), camera);
    const radius = Math.min(cell.width, cell.height) * 0.42 * sizeShare(row.total) * (row.health === "ok" ? 0.95 : 1);
    const isDimmed = scene.matches !== null && !scene.matches.has(key);
    healthPath(
      pathOf(row.health, isDimmed),
      row.health,
      cell.x + cell.width / 2,
      cell.y + cell.height / 2,
      Math.max(0.8, radius),
    );
  });
  // The most urgent health is drawn last, on top.
  for (const health of [...HEALTHS].reverse()) {
    for (const isDimmed of [true, false]) {
      const path = paths.get(`${health}${isDimmed ? "-" : "+"}`);
      if (path !== undefined) {
        context.globalAlpha = isDimmed ? DIMMED_ALPHA : 1;
        paintMark(context, path, health, palette);
      }
    }
  }
  context.globalAlpha = 1;
}

function paintMark(context: CanvasRenderingContext2D, path: Path2D, health: Health, palette: Palette): void {
  if (health === "idle") {
    context.lineWidth = 1;
    context.strokeStyle = palette.idle;
    context.stroke(path);
  } else {
    context.fillStyle = healthColour(palette, health);
    context.fill(path);
  }
}

function drawCards(
  context: CanvasRenderingContext2D,
  scene: ClusterScene,
  place: District,
  camera: Camera,
  viewport: Size,
  palette: Palette,
): void {
  place.slots.forEach((key, slot) => {
    const cell = toScreen(slotRect(place, slot), camera);
    if (!isVisible(cell, viewport)) {
      return;
    }
    const row = key === null ? undefined : scene.services.get(key);
    if (key === null || row === undefined) {
      return;
    }
    context.globalAlpha = scene.matches !== null && !scene.matches.has(key) ? DIMMED_ALPHA : 1;
    const isActive = scene.selection.kind === "service" && scene.selection.key === key;
    drawCard(context, row, cell, isActive, palette);
    context.globalAlpha = 1;
  });
}

function drawCard(context: CanvasRenderingContext2D, row: ServiceRow, cell: Rect, isActive: boolean, palette: Palette): void {
  const gap = Math.min(4, cell.height * 0.06);
  const box = { x: cell.x + gap, y: cell.y + gap, width: cell.width - 2 * gap, height: cell.height - 2 * gap };
  const colour = healthColour(palette, row.health);
  roundedRect(context, box.x, box.y, box.width, box.height, 7);
  context.fillStyle = palette.panel;
  context.fill();
  context.lineWidth = isActive ? 2 : 1;
  context.strokeStyle = isActive
    ? palette.accent
    : row.health === "error" || row.health === "warning"
      ? colour
      : palette["basin-line"];
  context.stroke();
  const lines = cardLines(row).slice(0, Math.max(0, Math.floor((box.height - 22) / 15)));
  const lineHeight = 15;
  const top = box.y + Math.max(10, (box.height - lines.length * lineHeight - 18) / 2 + 10);
  const length = Math.min(30, box.width * 0.18) * sizeShare(row.total);
  const middle = box.x + 8 + Math.min(30, box.width * 0.18) / 2;
  drawShip(context, row.health, middle, top + 0.5, length, palette);
  const x = box.x + 16 + Math.min(30, box.width * 0.18);
  const markWidth = row.health === "error" || row.health === "warning" ? 18 : 4;
  const size = box.height < 22 ? 11 : 12.5;
  drawText(context, row.name, x, top + 0.5, box.x + box.width - x - markWidth, { font: font(size, 600), colour: palette.ink });
  if (markWidth > 4) {
    context.beginPath();
    healthPath(context, row.health, box.x + box.width - 11, top, 4.6);
    context.fillStyle = colour;
    context.fill();
  }
  lines.forEach((line, index) => {
    const y = top + 17 + index * lineHeight;
    const lineColour = index === 0 && row.health !== "ok" && row.health !== "idle" ? colour : palette.muted;
    drawText(context, line, x, y, box.x + box.width - x - 6, { font: font(11), colour: lineColour });
  });
}

export function drawShip(
  context: CanvasRenderingContext2D,
  health: Health,
  x: number,
  y: number,
  length: number,
  palette: Palette,
): void {
  context.beginPath();
  hullPath(context, x, y, length, length * 0.46);
  if (health === "idle") {
    context.lineWidth = 1.3;
    context.strokeStyle = palette.idle;
    context.stroke();
  } else {
    context.fillStyle = healthColour(palette, health);
    context.fill();
  }
}

function cardLines(row: ServiceRow): string[] {
  const frontends = row.frontends.map((frontend) =>
    frontend.kind === "nodePort" ? `${FRONTEND_TITLES.nodePort} ${frontend.port}` : frontendAddress(frontend),
  );
  const lines = [readiness(row), typeTitle(row), frontends.join(", ")];
  if (row.traffic !== null) {
    lines.splice(1, 0, `${shortNumber(row.traffic.connectionsPerSecond)} connections/s`);
  }
  return lines.filter((line) => line !== "");
}

function drawSea(context: CanvasRenderingContext2D, scene: ClusterScene, camera: Camera, viewport: Size, palette: Palette): void {
  const sea = toScreen(scene.layout.sea, camera);
  drawRhumbLines(context, { x: sea.x + sea.width / 2, y: sea.y + sea.height * 0.5 }, viewport, palette);
  for (const entrance of entrances(scene)) {
    const box = toScreen(entrance.rect, camera);
    roundedRect(context, box.x, box.y, box.width, box.height, 8 * camera.k);
    context.fillStyle = palette.panel;
    context.globalAlpha = 0.9;
    context.fill();
    context.globalAlpha = 1;
    context.lineWidth = 1;
    context.strokeStyle = palette["basin-line"];
    context.stroke();
    const scale = camera.k;
    const width = box.width - 20 * scale;
    if (scale > 0.6) {
      const size = Math.min(1.4, scale);
      const x = box.x + 11 * scale;
      drawText(context, entrance.title, x, box.y + 19 * scale, width, { font: font(12.5 * size, 650), colour: palette.ink });
      entrance.lines.forEach((line, index) => {
        drawText(context, line, x, box.y + (38 + 16 * index) * scale, width, { font: font(11 * size), colour: palette.muted });
      });
    }
  }
}

/** Boxes of the clients: the frontends decide which Services they reach. */
export function entrances(scene: ClusterScene): { kind: "outside" | "inside"; title: string; lines: string[]; rect: Rect }[] {
  const { sea } = scene.layout;
  const [width, height] = [sea.width - 8, 84];
  const rect = (share: number) => ({ x: sea.x, y: sea.y + sea.height * share - height / 2, width, height });
  return [
    {
      kind: "outside",
      title: "External clients",
      lines: [`reach ${groupedNumber(scene.reach.outside)} Services`, "load balancer, node port,", "external IP"],
      rect: rect(0.27),
    },
    {
      kind: "inside",
      title: "Pods and nodes",
      lines: [`reach ${groupedNumber(scene.reach.inside)} Services`, "cluster IP, headless,", "external name"],
      rect: rect(0.73),
    },
  ];
}

/** Sixteen winds, as on a portolan chart. */
function drawRhumbLines(
  context: CanvasRenderingContext2D,
  rose: { x: number; y: number },
  viewport: Size,
  palette: Palette,
): void {
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
  context.beginPath();
  for (const radius of [26, 31]) {
    context.moveTo(rose.x + radius, rose.y);
    context.arc(rose.x, rose.y, radius, 0, 2 * Math.PI);
  }
  context.stroke();
  context.fillStyle = palette.rhumb;
  context.beginPath();
  for (let point = 0; point < 8; point += 1) {
    const angle = (point * Math.PI) / 4 - Math.PI / 2;
    const length = point % 2 === 0 ? 24 : 15;
    const side = Math.PI / 8;
    context.moveTo(rose.x, rose.y);
    context.lineTo(rose.x + Math.cos(angle - side) * 5, rose.y + Math.sin(angle - side) * 5);
    context.lineTo(rose.x + Math.cos(angle) * length, rose.y + Math.sin(angle) * length);
    context.lineTo(rose.x + Math.cos(angle + side) * 5, rose.y + Math.sin(angle + side) * 5);
  }
  context.fill();
}

function drawLand(
  context: CanvasRenderingContext2D,
  scene: ClusterScene,
  camera: Camera,
  viewport: Size,
  palette: Palette,
): void {
  if (scene.layout.land === null) {
    return;
  }
  const land = toScreen(scene.layout.land, camera);
  roundedRect(context, land.x, land.y, land.width, land.height, 12);
  context.fillStyle = palette.land;
  context.fill();
  context.lineWidth = 1;
  context.strokeStyle = palette["land-line"];
  context.stroke();
  const headerY = land.y + 18 * camera.k;
  if (camera.k > 0.6) {
    const style = { font: font(Math.min(13, 13 * camera.k), 650), colour: palette.ink };
    drawText(context, "Nodes", land.x + 14 * camera.k, headerY, land.width / 2, style);
    const count = groupedNumber(scene.nodes.size);
    drawText(context, count, land.x + land.width - 14 * camera.k, headerY, land.width / 2, {
      font: font(11.5),
      colour: palette.muted,
      align: "right",
    });
  }
  for (const zone of scene.layout.zones) {
    if (isVisible(toScreen(zone, camera), viewport)) {
      drawZone(context, scene, zone, camera, viewport, palette);
    }
  }
}

function drawZone(
  context: CanvasRenderingContext2D,
  scene: ClusterScene,
  zone: ZoneBlock,
  camera: Camera,
  viewport: Size,
  palette: Palette,
): void {
  const rect = toScreen(zone, camera);
  roundedRect(context, rect.x, rect.y, rect.width, rect.height, 8);
  context.strokeStyle = palette["land-line"];
  context.stroke();
  const header = zone.headerHeight * camera.k;
  if (header >= 9) {
    const title = zone.name === "" ? "no zone" : `zone ${zone.name}`;
    drawText(context, title, rect.x + 8, rect.y + header / 2 + 1, rect.width - 16, {
      font: font(Math.min(11.5, header * 0.7)),
      colour: palette.muted,
    });
  }
  for (const place of zone.nodes) {
    const node = scene.nodes.get(place.name);
    const box = toScreen(place, camera);
    if (node !== undefined && isVisible(box, viewport)) {
      drawNode(context, scene, node, box, palette);
    }
  }
}

function drawNode(context: CanvasRenderingContext2D, scene: ClusterScene, node: NodeRow, box: Rect, palette: Palette): void {
  const isActive = scene.selection.kind === "node" && scene.selection.name === node.name;
  const gap = Math.min(2, box.height * 0.08);
  roundedRect(context, box.x + gap, box.y + gap, box.width - 2 * gap, box.height - 2 * gap, 5);
  context.fillStyle = isActive ? palette["land-active"] : palette.panel;
  context.fill();
  if (isActive) {
    context.lineWidth = 2;
    context.strokeStyle = palette.accent;
    context.stroke();
  }
  const isLabelled = box.height >= 13 && box.width >= 60;
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
