// Shapes. Health has a shape besides its colour: disc = OK, triangle = warning, diamond = error, ring = idle.

import type { Health } from "../contract.ts";

/** Adds the shape of a health to the path, about `radius` around the point. Below `shapeFrom`, the shape is a rectangle. */
export function healthPath(
  path: Path2D | CanvasRenderingContext2D,
  health: Health,
  x: number,
  y: number,
  radius: number,
  shapeFrom = 0,
): void {
  if (radius < shapeFrom) {
    path.rect(x - radius * 0.9, y - radius * 0.9, radius * 1.8, radius * 1.8);
    return;
  }
  switch (health) {
    case "ok":
    case "idle":
      path.moveTo(x + radius, y);
      path.arc(x, y, radius, 0, 2 * Math.PI);
      break;
    case "warning": {
      const r = radius * 1.25;
      path.moveTo(x, y - r);
      path.lineTo(x + r * 0.95, y + r * 0.75);
      path.lineTo(x - r * 0.95, y + r * 0.75);
      path.closePath();
      break;
    }
    case "error": {
      const r = radius * 1.3;
      path.moveTo(x, y - r);
      path.lineTo(x + r, y);
      path.lineTo(x, y + r);
      path.lineTo(x - r, y);
      path.closePath();
      break;
    }
  }
}

/** Adds the outline of the mark of a Service, with its tip at the left. */
export function servicePath(path: Path2D | CanvasRenderingContext2D, x: number, y: number, length: number, width: number): void {
  const [left, right, half] = [x - length / 2, x + length / 2, width / 2];
  path.moveTo(left, y);
  path.quadraticCurveTo(left + length * 0.16, y - half, left + length * 0.42, y - half);
  path.lineTo(right - length * 0.06, y - half);
  path.quadraticCurveTo(right, y - half, right, y - half * 0.6);
  path.lineTo(right, y + half * 0.6);
  path.quadraticCurveTo(right, y + half, right - length * 0.06, y + half);
  path.lineTo(left + length * 0.42, y + half);
  path.quadraticCurveTo(left + length * 0.16, y + half, left, y);
  path.closePath();
}

/** Share of the largest size for a number of endpoints: 1 endpoint is 0.45, 64 and more are 1. */
export function sizeShare(endpoints: number): number {
  return Math.min(1, 0.45 + (0.55 * Math.log2(Math.max(1, endpoints))) / 6);
}

export function roundedRect(
  context: CanvasRenderingContext2D,
  x: number,
  y: number,
  width: number,
  height: number,
  radius: number,
): void {
  context.beginPath();
  context.roundRect(x, y, width, height, Math.max(0, Math.min(radius, width / 2, height / 2)));
}
