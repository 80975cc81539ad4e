// The whole page.

import { useEffect, useState } from "preact/hooks";
import type { Controller } from "../net/controller.ts";
import { type Cluster, type Connection, type State, shownCluster } from "../state/state.ts";
import type { Store } from "../state/store.ts";
import { Header } from "./header.tsx";
import { Help } from "./help.tsx";
import { ListPane } from "./list-pane.tsx";
import { Login, Logo } from "./login.tsx";
import { MapPane } from "./map-pane.tsx";
import { ClusterPanel, FindingPanel, NamespacePanel, NodePanel } from "./object-panels.tsx";
import type { Page } from "./page.ts";
import { IconButton } from "./parts.tsx";
import { ServicePanel } from "./service-panel.tsx";
import { applyTheme, storedTheme, type Theme } from "./theme.ts";
import { Timeline } from "./timeline.tsx";
import { TracePanel } from "./trace-panel.tsx";

export function App({ store, controller }: { store: Store; controller: Controller }) {
  const [state, setState] = useState(store.state);
  const [theme, setTheme] = useState<Theme>(storedTheme);
  useEffect(() => {
    setState(store.state);
    return store.subscribe(setState);
  }, [store]);
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => pressed(event, store, controller);
    addEventListener("keydown", onKeyDown);
    return () => removeEventListener("keydown", onKeyDown);
  }, [store, controller]);
  const choose = (next: Theme) => {
    applyTheme(next);
    setTheme(next);
  };
  const cluster = shownCluster(state);
  if (state.connection.kind === "signedOut") {
    return <Login controller={controller} message={state.connection.message} />;
  }
  if (cluster === null) {
    return <Loading connection={state.connection} controller={controller} />;
  }
  return <Chart page={{ state, cluster, store, controller }} theme={theme} onTheme={choose} />;
}

function Chart({ page, theme, onTheme }: { page: Page; theme: Theme; onTheme: (theme: Theme) => void }) {
  const { state, store, controller } = page;
  const title = titleOf(page);
  useEffect(() => {
    document.title = title;
  }, [title]);
  return (
    <div class="chart" data-connection={state.connection.kind} data-revision={page.cluster.revision}>
      <button
        type="button"
        class="skip"
        onClick={() =>
          document
            .getElementById(`${state.tab === "services" ? "service" : state.tab === "nodes" ? "node" : "finding"}-tree`)
            ?.focus()
        }
      >
        Skip to the list
      </button>
      <Header page={page} theme={theme} onTheme={onTheme} />
      {state.connection.kind === "lost" && <LostBanner connection={state.connection} controller={controller} />}
      <main class="main">
        <h1 class="visually-hidden">Chart of the cluster {page.cluster.name}</h1>
        <ListPane page={page} />
        <div class="stage">
          <MapPane page={page} theme={theme} />
          <Timeline page={page} />
        </div>
        <DetailPane page={page} />
      </main>
      <p class="visually-hidden" role="status">
        {statusText(state, page.cluster)}
      </p>
      {state.isHelpOpen && <Help onClose={() => store.dispatch({ kind: "help", isOpen: false })} />}
    </div>
  );
}

/** Title of the window: the number of errors, and the selection. */
function titleOf({ state, cluster }: Page): string {
  const { selection } = state;
  const place =
    selection.kind === "service"
      ? selection.key
      : selection.kind === "namespace" || selection.kind === "node"
        ? selection.name
        : cluster.name;
  const errors = cluster.totals.errors > 0 ? `(${cluster.totals.errors}) ` : "";
  return `${errors}${place === "" ? "" : `${place.slice(0, TITLE_CHARACTERS_MAX)} – `}Portolan chart`;
}

/** Browsers show less. */
const TITLE_CHARACTERS_MAX = 100;

function DetailPane({ page }: { page: Page }) {
  const { state, store, controller } = page;
  const { selection } = state;
  const isClosable = state.trace.isOpen || selection.kind !== "cluster";
  const close = () =>
    state.trace.isOpen ? store.dispatch({ kind: "traceOpen", isOpen: false }) : controller.select({ kind: "cluster" });
  return (
    <aside class="detail-pane" aria-label="Details">
      {isClosable && (
        <div class="detail-close">
          <IconButton icon="close" label="Close" keys="Esc" onClick={close} />
        </div>
      )}
      <div class="detail-scroll" tabIndex={0} role="group" aria-label="Details of the selection">
        {state.trace.isOpen ? <TracePanel page={page} /> : <SelectionPanel page={page} />}
      </div>
    </aside>
  );
}

function SelectionPanel({ page }: { page: Page }) {
  const { selection } = page.state;
  switch (selection.kind) {
    case "service":
      return <ServicePanel key={selection.key} page={page} name={selection.key} />;
    case "namespace":
      return <NamespacePanel key={selection.name} page={page} name={selection.name} />;
    case "node":
      return <NodePanel key={selection.name} page={page} name={selection.name} />;
    case "finding":
      return <FindingPanel key={selection.id} page={page} id={selection.id} />;
    default:
      return <ClusterPanel page={page} />;
  }
}

function Loading({ connection, controller }: { connection: Connection; controller: Controller }) {
  return (
    <main class="loading" aria-busy={connection.kind === "loading"}>
      <Logo />
      {connection.kind === "lost" ? (
        <>
          <h1>No connection to the server</h1>
          <p>{connection.message}</p>
          <Retry retryAt={connection.retryAt} controller={controller} />
        </>
      ) : (
        <h1>Reading the cluster…</h1>
      )}
    </main>
  );
}

function LostBanner({ connection, controller }: { connection: Connection & { kind: "lost" }; controller: Controller }) {
  return (
    <div class="banner" role="alert">
      <span>Connection lost. The chart shows the last known state.</span>
      <Retry retryAt={connection.retryAt} controller={controller} />
    </div>
  );
}

const SECOND_MILLISECONDS = 1_000;

function Retry({ retryAt, controller }: { retryAt: number; controller: Controller }) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), SECOND_MILLISECONDS);
    return () => clearInterval(timer);
  }, []);
  const seconds = Math.max(0, Math.ceil((retryAt - now) / SECOND_MILLISECONDS));
  return (
    <span class="retry">
      <span aria-hidden="true">{seconds === 0 ? "Connecting…" : `Next attempt in ${seconds} s`}</span>
      <button type="button" class="button small" onClick={() => controller.retry()}>
        Connect now
      </button>
    </span>
  );
}

function statusText(state: State, cluster: Cluster): string {
  const { selection, connection } = state;
  if (connection.kind === "lost") {
    return "";
  }
  switch (selection.kind) {
    case "service": {
      const row = cluster.services.get(selection.key);
      return row === undefined
        ? `Service ${selection.key} does not exist`
        : `Service ${selection.key}: ${row.health}, ${row.ready} of ${row.total} endpoints ready`;
    }
    case "namespace":
      return `Namespace ${selection.name}`;
    case "node":
      return `Node ${selection.name}`;
    default:
      return "";
  }
}

function pressed(event: KeyboardEvent, store: Store, controller: Controller): void {
  const { state } = store;
  const target = event.target;
  const isTyping =
    target instanceof HTMLElement &&
    (target.matches("input:not([type=range]):not([type=checkbox]), select, textarea") || target.isContentEditable);
  if (
    event.defaultPrevented ||
    event.ctrlKey ||
    event.metaKey ||
    event.altKey ||
    state.isHelpOpen ||
    (isTyping && event.key !== "Escape")
  ) {
    return;
  }
  const commands: Record<string, () => void> = {
    "/": () => document.getElementById("search")?.focus(),
    "?": () => store.dispatch({ kind: "help", isOpen: true }),
    t: () => store.dispatch({ kind: "traceOpen", isOpen: true }),
    l: () => store.dispatch({ kind: "live" }),
    Escape: () => back(store, controller),
  };
  const command = commands[event.key];
  if (command !== undefined) {
    command();
    event.preventDefault();
  }
}

/** One step outwards: trace, Service, namespace, cluster. */
function back(store: Store, controller: Controller): void {
  const { selection, trace } = store.state;
  if (trace.isOpen) {
    store.dispatch({ kind: "traceOpen", isOpen: false });
  } else if (selection.kind === "service") {
    controller.select({ kind: "namespace", name: selection.key.split("/")[0] ?? "" });
  } else if (selection.kind !== "cluster") {
    controller.select({ kind: "cluster" });
  }
}
