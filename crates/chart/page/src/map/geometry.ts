// Points and rectangles of the map, in CSS pixels.

export interface Point {
  x: number;
  y: number;
}

export interface Size {
  width: number;
  height: number;
}

export interface Rect extends Point, Size {}

/** Position of the camera: `screen = world * k + (x, y)`. */
export interface Camera extends Point {
  k: number;
}

export const CAMERA_HOME: Camera = { x: 0, y: 0, k: 1 };

export function contains(rect: Rect, point: Point): boolean {
  return point.x >= rect.x && point.x < rect.x + rect.width && point.y >= rect.y && point.y < rect.y + rect.height;
}

export function center(rect: Rect): Point {
  return { x: rect.x + rect.width / 2, y: rect.y + rect.height / 2 };
}

export function toScreen(rect: Rect, camera: Camera): Rect {
  return {
    x: rect.x * camera.k + camera.x,
    y: rect.y * camera.k + camera.y,
    width: rect.width * camera.k,
    height: rect.height * camera.k,
  };
}

export function pointToScreen(point: Point, camera: Camera): Point {
  return { x: point.x * camera.k + camera.x, y: point.y * camera.k + camera.y };
}

export function toWorld(point: Point, camera: Camera): Point {
  return { x: (point.x - camera.x) / camera.k, y: (point.y - camera.y) / camera.k };
}

export function isVisible(rect: Rect, size: Size): boolean {
  return rect.x < size.width && rect.y < size.height && rect.x + rect.width > 0 && rect.y + rect.height > 0;
}

export function clamp(value: number, low: number, high: number): number {
  return Math.min(Math.max(value, low), Math.max(low, high));
}

/** Camera that shows the rectangle in the middle of the viewport. */
export function cameraFor(rect: Rect, viewport: Size, margin: number, kMax: number): Camera {
  const k = Math.min((viewport.width - 2 * margin) / rect.width, (viewport.height - 2 * margin) / rect.height, kMax);
  const middle = center(rect);
  return { k, x: viewport.width / 2 - middle.x * k, y: viewport.height / 2 - middle.y * k };
}
