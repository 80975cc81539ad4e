// Snapshot and changes: keeps the cluster in the store current, and connects again after failures.

import type { Change } from "../contract.ts";
import { delayMilliseconds } from "../state/backoff.ts";
import type { Store } from "../state/store.ts";
import { parseVisible } from "../text/visible.ts";
import { ApiError, api } from "./api.ts";

const SERVICE_UNAVAILABLE = 503;
const UNAVAILABLE_MILLISECONDS = 1_000;

export class Feed {
  private source: EventSource | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private attempt = 0;
  /** A later start or stop makes responses to earlier requests stale. */
  private generation = 0;

  constructor(private readonly store: Store) {}

  /** Takes a snapshot unless the store has one, then follows the changes. */
  async start(): Promise<void> {
    this.stop();
    const generation = this.generation;
    try {
      const session = await api.session();
      if (generation !== this.generation) {
        return;
      }
      this.store.dispatch({ kind: "session", session });
      if (this.store.state.cluster === null) {
        await this.takeSnapshot();
      }
      if (generation === this.generation) {
        this.follow();
      }
    } catch (error) {
      if (generation === this.generation) {
        this.failed(error);
      }
    }
  }

  stop(): void {
    this.generation += 1;
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
  }

  private async takeSnapshot(): Promise<void> {
    const generation = this.generation;
    const snapshot = await api.snapshot("");
    if (generation === this.generation) {
      this.store.dispatch({ kind: "snapshot", snapshot });
    }
  }

  private follow(): void {
    const revision = this.store.state.cluster?.revision ?? 0;
    const source = new EventSource(`./api/events?revision=${revision}`);
    this.source = source;
    source.addEventListener("open", () => {
      this.attempt = 0;
      this.store.dispatch({ kind: "connection", connection: { kind: "live" } });
    });
    source.addEventListener("change", (event: MessageEvent<string>) => {
      this.store.dispatch({ kind: "change", change: parseVisible(event.data) as Change });
    });
    source.addEventListener("reload", () => this.reload());
    source.addEventListener("error", () => {
      if (source === this.source) {
        this.failed(new ApiError(0, "The connection to the server is closed"));
      }
    });
  }

  /** The page is too far behind for changes: it takes a new snapshot and follows from there. */
  private reload(): void {
    this.stop();
    const generation = this.generation;
    this.takeSnapshot().then(
      () => {
        if (generation === this.generation) {
          this.follow();
        }
      },
      (error: unknown) => {
        if (generation === this.generation) {
          this.failed(error);
        }
      },
    );
  }

  private failed(error: unknown): void {
    this.stop();
    const message = error instanceof Error ? error.message : String(error);
    if (error instanceof ApiError && (error.status === 401 || error.status === 403)) {
      this.store.dispatch({
        kind: "connection",
        connection: { kind: "signedOut", message: error.status === 403 ? message : "" },
      });
      return;
    }
    if (error instanceof ApiError && error.status === SERVICE_UNAVAILABLE && this.store.state.cluster === null) {
      // The server still reads the objects of the cluster.
      this.timer = setTimeout(() => void this.start(), UNAVAILABLE_MILLISECONDS);
      return;
    }
    const delay = delayMilliseconds(this.attempt, Math.random());
    this.attempt += 1;
    this.store.dispatch({ kind: "connection", connection: { kind: "lost", message, retryAt: Date.now() + delay } });
    this.timer = setTimeout(() => void this.start(), delay);
  }
}
