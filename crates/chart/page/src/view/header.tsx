// Top: name, totals, search, and the buttons of the page.

import { useRef } from "preact/hooks";
import { groupedNumber, shortNumber } from "../text/format.ts";
import { Logo } from "./login.tsx";
import type { Page } from "./page.ts";
import { HealthMark, Icon, IconButton } from "./parts.tsx";
import type { Theme } from "./theme.ts";

const NEXT_THEME: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };
const THEME_ICONS = { system: "system", light: "sun", dark: "moon" } as const;

export function Header({ page, theme, onTheme }: { page: Page; theme: Theme; onTheme: (theme: Theme) => void }) {
  const { state, store, controller, cluster } = page;
  const { totals } = cluster;
  return (
    <header class="header">
      <button
        type="button"
        class="brand"
        onClick={() => controller.select({ kind: "cluster" })}
        aria-label="Portolan chart: show the whole cluster"
      >
        <Logo />
        <span class="brand-name">Portolan</span>
        {cluster.name !== "" && <span class="brand-cluster">{cluster.name}</span>}
      </button>
      <Search page={page} />
      <ul class="totals" aria-label="Totals">
        <li>
          <b>{groupedNumber(totals.services)}</b> Services
        </li>
        <li>
          <b>
            {groupedNumber(totals.endpointsReady)}
            <span class="muted">/{groupedNumber(totals.endpoints)}</span>
          </b>{" "}
          endpoints ready
        </li>
        <li class={totals.errors > 0 ? "total-error" : ""}>
          <HealthMark health="error" title="" />
          <b>{groupedNumber(totals.errors)}</b> {totals.errors === 1 ? "error" : "errors"}
        </li>
        <li class={totals.warnings > 0 ? "total-warning" : ""}>
          <HealthMark health="warning" title="" />
          <b>{groupedNumber(totals.warnings)}</b> {totals.warnings === 1 ? "warning" : "warnings"}
        </li>
        {totals.connectionsPerSecond !== null && (
          <li>
            <b>{shortNumber(totals.connectionsPerSecond)}</b> connections/s
          </li>
        )}
      </ul>
      <div class="actions">
        <ConnectionState page={page} />
        <button
          type="button"
          class={`button${state.trace.isOpen ? " is-on" : ""}`}
          aria-expanded={state.trace.isOpen}
          title="Trace a connection (t)"
          onClick={() => store.dispatch({ kind: "traceOpen", isOpen: !state.trace.isOpen })}
        >
          <Icon name="trace" />
          Trace
        </button>
        <IconButton icon={THEME_ICONS[theme]} label={`Theme: ${theme}`} onClick={() => onTheme(NEXT_THEME[theme])} />
        <IconButton icon="help" label="Keys and marks" keys="?" onClick={() => store.dispatch({ kind: "help", isOpen: true })} />
        {state.session?.authentication === "token" && (
          <IconButton icon="exit" label={`Sign out ${state.session.user}`} onClick={() => void controller.signOut()} />
        )}
      </div>
    </header>
  );
}

function Search({ page }: { page: Page }) {
  const { state, store } = page;
  const input = useRef<HTMLInputElement>(null);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Escape") {
      store.dispatch({ kind: "filter", filter: { text: "" } });
      input.current?.blur();
      event.stopPropagation();
    } else if (event.key === "ArrowDown" || event.key === "Enter") {
      document.getElementById("service-tree")?.focus();
      event.preventDefault();
    }
  };
  return (
    <div class="search" role="search">
      <Icon name="search" />
      <input
        ref={input}
        id="search"
        type="search"
        autocomplete="off"
        spellcheck={false}
        aria-label="Search Services by name, namespace, address or port"
        aria-keyshortcuts="/"
        placeholder="Search Services"
        value={state.filter.text}
        onInput={(event) => {
          store.dispatch({ kind: "tab", tab: "services" });
          store.dispatch({ kind: "filter", filter: { text: event.currentTarget.value } });
        }}
        onKeyDown={onKeyDown}
      />
      <kbd aria-hidden="true">/</kbd>
    </div>
  );
}

function ConnectionState({ page }: { page: Page }) {
  const { connection, past } = page.state;
  if (connection.kind === "lost") {
    return <span class="connection connection-lost">offline</span>;
  }
  if (past !== null) {
    return <span class="connection connection-past">past</span>;
  }
  return connection.kind === "live" ? (
    <span class="connection connection-live">live</span>
  ) : (
    <span class="connection">connecting</span>
  );
}
