// Effects of the page: loads data that the state asks for, keeps the hash of the address, runs commands of the user.

import { formatHash, loginSecret, parseHash } from "../state/hash.ts";
import type { Cluster, Selection, ServiceKey, State, TraceForm } from "../state/state.ts";
import type { Store } from "../state/store.ts";
import { ApiError, api } from "./api.ts";
import { Feed } from "./feed.ts";

/** Details and findings of changing objects are read again after this time. */
const REFRESH_MILLISECONDS = 2_000;
const HISTORY_MILLISECONDS_MIN = 5_000;
/** While the slider moves, one snapshot is read in this time. */
const PAST_MILLISECONDS = 120;

export class Controller {
  private readonly feed: Feed;
  private detailTimer: ReturnType<typeof setTimeout> | undefined;
  private findingsTimer: ReturnType<typeof setTimeout> | undefined;
  private historyTimer: ReturnType<typeof setTimeout> | undefined;
  private isFollowingHistory = false;
  private isDetailLoading = false;
  private pastTimer: ReturnType<typeof setTimeout> | undefined;
  private pastRequest: AbortController | null = null;
  private traceRequest: AbortController | null = null;
  private detailRequest: AbortController | null = null;
  /** The state takes over the hash; it is not written meanwhile. */
  private isFollowingHash = false;

  constructor(private readonly store: Store) {
    this.feed = new Feed(store);
    store.subscribe((state, before) => this.changed(state, before));
  }

  start(): void {
    addEventListener("hashchange", () => this.followHash());
    if (!this.followHash()) {
      void this.feed.start();
    }
  }

  retry(): void {
    void this.feed.start();
  }

  async signIn(token: string): Promise<string> {
    try {
      await api.signIn(token);
    } catch (error) {
      return error instanceof Error ? error.message : String(error);
    }
    this.store.dispatch({ kind: "connection", connection: { kind: "loading" } });
    await this.feed.start();
    return "";
  }

  async signOut(): Promise<void> {
    this.feed.stop();
    let message = "";
    try {
      await api.signOut();
    } catch (error) {
      message = `The session is still open: ${error instanceof Error ? error.message : String(error)}`;
    }
    this.store.dispatch({ kind: "connection", connection: { kind: "signedOut", message } });
  }

  select(selection: Selection): void {
    this.store.dispatch({ kind: "select", selection });
  }

  showPast(time: string): void {
    this.store.dispatch({ kind: "past", time });
  }

  async trace(form: TraceForm): Promise<void> {
    this.traceRequest?.abort();
    const request = new AbortController();
    this.traceRequest = request;
    this.store.dispatch({ kind: "traceRunning", form });
    try {
      const trace = await api.trace(form.url, form.from, request.signal);
      if (!request.signal.aborted) {
        this.store.dispatch({ kind: "traceDone", trace });
      }
    } catch (error) {
      if (!request.signal.aborted) {
        this.store.dispatch({ kind: "traceFailed", message: error instanceof Error ? error.message : String(error) });
      }
    }
  }

  private async signInOnce(secret: string): Promise<void> {
    const message = await this.signIn(secret);
    if (message !== "") {
      this.store.dispatch({ kind: "connection", connection: { kind: "signedOut", message } });
    }
  }

  private changed(state: State, before: State): void {
    const { selection } = state;
    if (selection.kind === "service" && state.cluster !== null) {
      const isOther = before.selection.kind !== "service" || before.selection.key !== selection.key || before.cluster === null;
      if (isOther) {
        void this.loadDetail(selection.key);
      } else if (state.cluster.services.get(selection.key) !== before.cluster?.services.get(selection.key)) {
        this.refreshDetail(selection.key);
      }
    }
    if (state.cluster !== null && state.cluster !== before.cluster) {
      this.clusterChanged(state, before);
    }
    if (state.past?.time !== before.past?.time) {
      this.pastChanged(state.past?.time ?? "");
    }
    if (state.cluster === null && before.cluster !== null) {
      clearTimeout(this.historyTimer);
      this.isFollowingHistory = false;
    }
    this.writeHash(state, before);
  }

  private clusterChanged(state: State, before: State): void {
    if (state.cluster !== null && haveOtherFindings(state.cluster, before.cluster)) {
      this.refreshFindings(before.cluster === null);
    }
    if (!this.isFollowingHistory) {
      this.isFollowingHistory = true;
      void this.loadHistory();
    }
    const { past } = state;
    if (before.cluster === null && past !== null && past.cluster === null) {
      this.pastChanged(past.time);
    }
  }

  private async loadDetail(key: ServiceKey): Promise<void> {
    clearTimeout(this.detailTimer);
    this.detailTimer = undefined;
    this.detailRequest?.abort();
    const request = new AbortController();
    this.detailRequest = request;
    this.isDetailLoading = true;
    try {
      const detail = await api.service(key, request.signal);
      this.store.dispatch({ kind: "detail", key, detail });
    } catch (error) {
      if (!request.signal.aborted) {
        this.failedRequest(error, (message) => this.store.dispatch({ kind: "detailFailed", key, message }));
      }
    }
    if (!request.signal.aborted) {
      this.isDetailLoading = false;
    }
  }

  private refreshDetail(key: ServiceKey): void {
    if (this.detailTimer === undefined) {
      const load = () => {
        const { selection } = this.store.state;
        this.detailTimer = undefined;
        if (selection.kind !== "service" || selection.key !== key) {
          return;
        }
        if (this.isDetailLoading) {
          // A slow response is not given up for the next one.
          this.refreshDetail(key);
        } else {
          void this.loadDetail(key);
        }
      };
      this.detailTimer = setTimeout(load, REFRESH_MILLISECONDS / 4);
    }
  }

  private refreshFindings(isFirst: boolean): void {
    if (this.findingsTimer !== undefined) {
      return;
    }
    const load = async () => {
      this.findingsTimer = undefined;
      try {
        this.store.dispatch({ kind: "findings", findings: await api.findings() });
      } catch (error) {
        this.failedRequest(error, () => this.retryFindings());
      }
    };
    this.findingsTimer = setTimeout(() => void load(), isFirst ? 0 : REFRESH_MILLISECONDS / 2);
  }

  private retryFindings(): void {
    if (this.store.state.cluster !== null) {
      this.findingsTimer ??= setTimeout(() => {
        this.findingsTimer = undefined;
        this.refreshFindings(false);
      }, HISTORY_MILLISECONDS_MIN);
    }
  }

  private async loadHistory(): Promise<void> {
    let step = HISTORY_MILLISECONDS_MIN;
    try {
      const history = await api.history();
      this.store.dispatch({ kind: "history", history });
      step = Math.max(history.stepSeconds * 1000, HISTORY_MILLISECONDS_MIN);
    } catch (error) {
      this.failedRequest(error, () => undefined);
    }
    clearTimeout(this.historyTimer);
    if (this.store.state.cluster !== null) {
      this.historyTimer = setTimeout(() => {
        // A finding can replace another one, without a change of the numbers.
        this.refreshFindings(false);
        void this.loadHistory();
      }, step);
    }
  }

  private pastChanged(time: string): void {
    clearTimeout(this.pastTimer);
    this.pastRequest?.abort();
    if (time === "" || this.store.state.cluster === null) {
      return;
    }
    const load = async () => {
      const request = new AbortController();
      this.pastRequest = request;
      try {
        const snapshot = await api.snapshot(time, request.signal);
        this.store.dispatch({ kind: "pastSnapshot", time, snapshot });
      } catch (error) {
        if (!request.signal.aborted) {
          this.failedRequest(error, (message) => this.store.dispatch({ kind: "pastFailed", time, message }));
        }
      }
    };
    this.pastTimer = setTimeout(() => void load(), PAST_MILLISECONDS);
  }

  private failedRequest(error: unknown, report: (message: string) => void): void {
    if (error instanceof ApiError && error.status === 401) {
      this.feed.stop();
      this.store.dispatch({
        kind: "connection",
        connection: { kind: "signedOut", message: "The session has ended. Sign in again." },
      });
      return;
    }
    report(error instanceof Error ? error.message : String(error));
  }

  /** Takes over the hash of the address. Returns true if it held a secret, with which a session begins. */
  private followHash(): boolean {
    const secret = loginSecret(location.hash);
    if (secret !== "") {
      // The secret works once. It leaves the address before anything else happens.
      history.replaceState(null, "", `${location.pathname}${location.search}`);
      void this.signInOnce(secret);
      return true;
    }
    if (location.hash === formatHash(this.store.state)) {
      return false;
    }
    const link = parseHash(location.hash);
    this.isFollowingHash = true;
    this.store.dispatch({ kind: "filter", filter: link.filter });
    this.store.dispatch({ kind: "select", selection: link.selection });
    this.store.dispatch(link.time === "" ? { kind: "live" } : { kind: "past", time: link.time });
    if (link.trace !== null) {
      this.store.dispatch({ kind: "traceOpen", isOpen: true, form: link.trace });
      if (link.trace.url !== "" && link.trace.from !== "") {
        void this.trace(link.trace);
      }
    }
    this.isFollowingHash = false;
    return false;
  }

  private writeHash(state: State, before: State): void {
    const hash = formatHash(state);
    if (this.isFollowingHash || hash === location.hash || hash === formatHash(before)) {
      return;
    }
    const target = hash === "" ? `${location.pathname}${location.search}` : hash;
    // A chosen object is an entry of the history; typing and dragging replace the entry.
    if (state.selection !== before.selection) {
      history.pushState(null, "", target);
    } else {
      history.replaceState(null, "", target);
    }
  }
}

/** True if Services were added or removed, or the numbers of their findings differ. */
function haveOtherFindings(cluster: Cluster, before: Cluster | null): boolean {
  if (before === null || cluster.services.size !== before.services.size) {
    return true;
  }
  if (cluster.services === before.services) {
    return false;
  }
  for (const [key, row] of cluster.services) {
    const old = before.services.get(key);
    if (row !== old && row.findings.join() !== old?.findings.join()) {
      return true;
    }
  }
  return false;
}
