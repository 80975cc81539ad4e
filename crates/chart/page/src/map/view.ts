// The map on three canvases: ground, lines, which move, and objects, which cover the lines. Owns the camera.

import { select } from "d3-selection";
import "d3-transition";
import { type D3ZoomEvent, type ZoomBehavior, type ZoomTransform, zoom, zoomIdentity } from "d3-zoom";
import type { Diagram } from "./diagram.ts";
import { clientBoxes } from "./draw-clients.ts";
import { drawClusterGround, drawClusterObjects } from "./draw-cluster.ts";
import { drawDiagramBoxes, drawDiagramGround } from "./draw-diagram.ts";
import { drawLines, drawMapLines, isMoving } from "./draw-lines.ts";
import { CAMERA_HOME, type Camera, cameraFor, contains, type Point, type Rect, type Size, toWorld } from "./geometry.ts";
import { type MapTarget, targetAt } from "./layout.ts";
import { type MapLine, overviewLines, targetLines } from "./map-lines.ts";
import { type Palette, readPalette } from "./palette.ts";
import type { ClusterScene } from "./scene.ts";

export type Scene = { kind: "cluster"; cluster: ClusterScene; focus: string } | { kind: "diagram"; id: string; diagram: Diagram };

export interface MapEvents {
  onChoose: (target: MapTarget | null) => void;
  onHover: (target: MapTarget | { kind: "box"; id: string } | null, point: Point) => void;
  onResize: (size: Size) => void;
}

const SCALE_MAX = 80;
const DIAGRAM_SCALE_MAX = 3;
const TRANSITION_MILLISECONDS = 380;
/** Moving lines are drawn at most 30 times a second. */
const LINE_FRAME_MILLISECONDS = 33;
/** Below this movement, a press is a click. */
const CLICK_PIXELS_MAX = 5;

export class MapView {
  private readonly ground: CanvasRenderingContext2D;
  private readonly lines: CanvasRenderingContext2D;
  private readonly objects: CanvasRenderingContext2D;
  private readonly behavior: ZoomBehavior<HTMLCanvasElement, unknown>;
  private readonly observer: ResizeObserver;
  private readonly reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");
  private palette: Palette = readPalette();
  private size: Size = { width: 0, height: 0 };
  private camera: Camera = CAMERA_HOME;
  private scene: Scene | null = null;
  private hovered: MapTarget | null = null;
  private mapLines: MapLine[] = [];
  private isSceneStale = true;
  private areLinesStale = true;
  private frame = 0;
  private lastLineFrame = 0;
  /** False while the user has moved the camera away from the position that the page chose. */
  private isAtHome = true;

  /** `canvas` is the upper one; it takes the pointer. */
  constructor(
    ground: HTMLCanvasElement,
    lines: HTMLCanvasElement,
    private readonly canvas: HTMLCanvasElement,
    private readonly events: MapEvents,
  ) {
    // The ground has no holes, so the browser need not blend it with the page.
    this.ground = context2d(ground, { alpha: false });
    this.lines = context2d(lines);
    this.objects = context2d(canvas);
    this.behavior = zoom<HTMLCanvasElement, unknown>()
      .clickDistance(CLICK_PIXELS_MAX)
      .on("zoom", (event: D3ZoomEvent<HTMLCanvasElement, unknown>) => this.moved(event.transform, event.sourceEvent !== null));
    select(canvas).call(this.behavior).on("dblclick.zoom", null);
    canvas.addEventListener("click", (event) => this.clicked(event));
    canvas.addEventListener("pointermove", (event) => this.pointed(event));
    canvas.addEventListener("pointerleave", () => this.hover(null, { x: 0, y: 0 }));
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(canvas);
  }

  destroy(): void {
    this.observer.disconnect();
    cancelAnimationFrame(this.frame);
    select(this.canvas).on(".zoom", null);
  }

  /** Shows a scene. The camera moves if the scene is another one, or has another focus. */
  show(scene: Scene): void {
    const before = this.scene;
    this.scene = scene;
    this.canvas.dataset.scene = scene.kind === "cluster" ? "cluster" : scene.id;
    const isOther = before === null || identityOf(before) !== identityOf(scene);
    if (isOther) {
      this.hovered = null;
      this.configureCamera(scene);
      this.fit(before !== null && before.kind === scene.kind);
    } else if (this.isAtHome && hasOtherExtent(before, scene)) {
      this.fit(false);
    }
    this.updateMapLines();
    this.redraw();
  }

  /** Reads the colours again, after a change of the theme. */
  updatePalette(): void {
    this.palette = readPalette();
    this.clearGround();
    this.redraw();
  }

  zoomBy(factor: number): void {
    this.behavior.scaleBy(this.selection(true), factor);
    this.isAtHome = false;
  }

  panBy(x: number, y: number): void {
    this.behavior.translateBy(this.selection(false), x / this.camera.k, y / this.camera.k);
    this.isAtHome = false;
  }

  /** Shows the whole scene, or its focus. */
  fit(isAnimated: boolean): void {
    if (this.scene === null || this.size.width === 0) {
      return;
    }
    const { x, y, k } = this.homeCamera(this.scene);
    const target = zoomIdentity.translate(x, y).scale(k);
    this.behavior.transform(this.selection(isAnimated), target);
    this.isAtHome = true;
  }

  private selection(isAnimated: boolean) {
    const canvas = select(this.canvas);
    // A transition has the methods of a selection that the zoom behaviour uses.
    return isAnimated && !this.reducedMotion.matches
      ? (canvas.transition().duration(TRANSITION_MILLISECONDS) as unknown as typeof canvas)
      : canvas;
  }

  private homeCamera(scene: Scene): Camera {
    if (scene.kind === "diagram") {
      return cameraFor(scene.diagram.extent, this.size, 24, 1.2);
    }
    const { layout } = scene.cluster;
    const area = layout.namespaces.find((namespace) => namespace.name === scene.focus);
    return area === undefined ? CAMERA_HOME : cameraFor(area, this.size, 28, SCALE_MAX);
  }

  private configureCamera(scene: Scene): void {
    const isCluster = scene.kind === "cluster";
    const extent: Rect = scene.kind === "diagram" ? scene.diagram.extent : { x: 0, y: 0, ...this.size };
    const margin = isCluster ? 80 : 600;
    this.behavior.scaleExtent(isCluster ? [0.8, SCALE_MAX] : [0.05, DIAGRAM_SCALE_MAX]).translateExtent([
      [extent.x - margin, extent.y - margin],
      [extent.x + extent.width + margin, extent.y + extent.height + margin],
    ]);
  }

  private moved(transform: ZoomTransform, isByUser: boolean): void {
    this.camera = { x: transform.x, y: transform.y, k: transform.k };
    if (isByUser) {
      this.isAtHome = false;
    }
    this.redraw();
  }

  private resize(): void {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (width === 0 || height === 0 || (width === this.size.width && height === this.size.height)) {
      return;
    }
    this.size = { width, height };
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    for (const context of [this.ground, this.lines, this.objects]) {
      context.canvas.width = Math.round(width * ratio);
      context.canvas.height = Math.round(height * ratio);
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
    }
    this.clearGround();
    this.behavior.extent([
      [0, 0],
      [width, height],
    ]);
    this.events.onResize(this.size);
    if (this.scene !== null) {
      this.configureCamera(this.scene);
      if (this.isAtHome) {
        this.fit(false);
      }
    }
    // A canvas is empty after a change of its size. An immediate frame avoids flicker.
    this.isSceneStale = true;
    this.areLinesStale = true;
    this.draw(performance.now());
  }

  private point(event: MouseEvent): Point {
    const rect = this.canvas.getBoundingClientRect();
    return { x: event.clientX - rect.left, y: event.clientY - rect.top };
  }

  private clicked(event: MouseEvent): void {
    const scene = this.scene;
    const world = toWorld(this.point(event), this.camera);
    if (scene?.kind === "cluster") {
      this.events.onChoose(targetAt(scene.cluster.layout, world));
    } else if (scene?.kind === "diagram") {
      const box = scene.diagram.boxes.find((entry) => contains(entry, world));
      if (box?.id.startsWith("node|") === true && box.id !== "node|") {
        this.events.onChoose({ kind: "node", name: box.id.slice("node|".length) });
      }
    }
  }

  private pointed(event: PointerEvent): void {
    const point = this.point(event);
    const world = toWorld(point, this.camera);
    if (this.scene?.kind === "cluster") {
      this.hover(event.buttons === 0 ? targetAt(this.scene.cluster.layout, world) : null, point);
    } else if (this.scene?.kind === "diagram") {
      const box = this.scene.diagram.boxes.find((entry) => entry.id !== "service" && contains(entry, world));
      this.events.onHover(box === undefined ? null : { kind: "box", id: box.id }, point);
    }
  }

  private hover(target: MapTarget | null, point: Point): void {
    const isOther = JSON.stringify(target) !== JSON.stringify(this.hovered);
    this.hovered = target;
    this.canvas.dataset.target = target?.kind ?? "";
    this.events.onHover(target, point);
    if (isOther) {
      this.updateMapLines();
      this.areLinesStale = true;
      this.schedule();
    }
  }

  private updateMapLines(): void {
    if (this.scene?.kind !== "cluster") {
      this.mapLines = [];
      return;
    }
    const { cluster } = this.scene;
    const source = { layout: cluster.layout, services: cluster.services, clientBoxes: clientBoxes(cluster) };
    const { selection } = cluster;
    const chosen: MapTarget | null = selection.kind === "node" ? selection : null;
    const target = this.hovered !== null && this.hovered.kind !== "namespace" ? this.hovered : chosen;
    this.mapLines = target === null ? overviewLines(cluster.layout, cluster.groups) : targetLines(source, target);
  }

  private redraw(): void {
    this.isSceneStale = true;
    this.areLinesStale = true;
    this.schedule();
  }

  private schedule(): void {
    if (this.frame === 0) {
      this.frame = requestAnimationFrame((time) => {
        this.frame = 0;
        this.draw(time);
      });
    }
  }

  private draw(time: number): void {
    const { scene, camera, size, palette } = this;
    if (scene === null || size.width === 0) {
      return;
    }
    if (this.isSceneStale) {
      const start = performance.now();
      this.isSceneStale = false;
      this.drawScene(scene);
      // Measurements and tests read these.
      this.canvas.dataset.frameMilliseconds = (performance.now() - start).toFixed(1);
      this.canvas.dataset.firstFrame ??= performance.now().toFixed(0);
    }
    const isAnimated = !this.reducedMotion.matches && isMoving(scene.kind === "cluster" ? this.mapLines : scene.diagram.lines);
    if (this.areLinesStale || (isAnimated && time - this.lastLineFrame >= LINE_FRAME_MILLISECONDS)) {
      this.areLinesStale = false;
      this.lastLineFrame = time;
      this.lines.clearRect(0, 0, size.width, size.height);
      const seconds = this.reducedMotion.matches ? 0 : time / 1000;
      if (scene.kind === "cluster") {
        drawMapLines(this.lines, this.mapLines, camera, seconds, palette);
      } else {
        drawLines(this.lines, scene.diagram, camera, seconds, palette);
      }
    }
    if (isAnimated) {
      this.schedule();
    }
  }

  /** Without a scene, too: an opaque canvas begins black. */
  private clearGround(): void {
    this.ground.fillStyle = this.palette.background;
    this.ground.fillRect(0, 0, this.size.width, this.size.height);
  }

  private drawScene(scene: Scene): void {
    const { camera, size, palette } = this;
    this.clearGround();
    this.objects.clearRect(0, 0, size.width, size.height);
    if (scene.kind === "cluster") {
      drawClusterGround(this.ground, scene.cluster, camera, size, palette);
      drawClusterObjects(this.objects, scene.cluster, camera, size, palette);
    } else {
      drawDiagramGround(this.ground, scene.diagram, camera, size, palette);
      drawDiagramBoxes(this.objects, scene.diagram, camera, size, palette);
    }
  }
}

function context2d(canvas: HTMLCanvasElement, settings: CanvasRenderingContext2DSettings = {}): CanvasRenderingContext2D {
  const context = canvas.getContext("2d", settings);
  if (context === null) {
    throw new Error("expected a canvas with a 2d context; the browser offers none");
  }
  return context;
}

function identityOf(scene: Scene): string {
  return scene.kind === "cluster" ? `cluster|${scene.focus}` : `diagram|${scene.id}`;
}

function hasOtherExtent(before: Scene, after: Scene): boolean {
  const extentOfScene = (scene: Scene) =>
    JSON.stringify(scene.kind === "cluster" ? scene.cluster.layout.size : scene.diagram.extent);
  return before.kind === after.kind && extentOfScene(before) !== extentOfScene(after);
}
