// Diagram of one Service or one trace: boxes in columns with lines between them. Pure.

import type { Frontend, Health } from "../contract.ts";
import type { Rect } from "./geometry.ts";

export interface Box extends Rect {
  id: string;
  kind: "client" | "service" | "frontend" | "endpoint" | "summary" | "verdict";
  title: string;
  lines: string[];
  health: Health | null;
  /** Part of a traced way. */
  isTraced: boolean;
  isDimmed: boolean;
}

/** Frame around boxes, with a title: a zone or a node. */
export interface Frame extends Rect {
  title: string;
  note: string;
  level: 0 | 1;
}

export interface Line {
  from: string;
  to: string;
  width: number;
  perSecond: number | null;
  style: "traffic" | "reach" | "trace" | "excluded";
  label: string;
}

export interface ColumnTitle {
  x: number;
  y: number;
  width: number;
  text: string;
}

export interface Diagram {
  boxes: Box[];
  frames: Frame[];
  lines: Line[];
  titles: ColumnTitle[];
  /** Area that the camera shows at first. */
  extent: Rect;
}

export function boxById(diagram: Diagram, id: string): Box | undefined {
  return diagram.boxes.find((box) => box.id === id);
}

export function extentOf(rects: Rect[]): Rect {
  const left = Math.min(...rects.map((rect) => rect.x));
  const top = Math.min(...rects.map((rect) => rect.y));
  const right = Math.max(...rects.map((rect) => rect.x + rect.width));
  const bottom = Math.max(...rects.map((rect) => rect.y + rect.height));
  return rects.length === 0
    ? { x: 0, y: 0, width: 1, height: 1 }
    : { x: left, y: top, width: right - left, height: bottom - top };
}

export function frontendId(frontend: Pick<Frontend, "kind" | "address" | "port" | "protocol">): string {
  return `frontend|${frontend.kind}|${frontend.address}|${frontend.port}|${frontend.protocol}`;
}

/** Identity of an endpoint box: its address, without the port. */
export function endpointId(address: string): string {
  return `endpoint|${address}`;
}
