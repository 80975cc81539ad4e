// Left side: search, filters, and the lists of Services, nodes and findings. They hold everything that the map shows.

import { useMemo } from "preact/hooks";
import type { Finding, Health, NodeRow, ServiceRow, ServiceType } from "../contract.ts";
import {
  groupByNamespace,
  groupByZone,
  HEALTH_TITLES,
  HEALTHS,
  isFiltered,
  type NamespaceGroup,
  nodeTreeRows,
  serviceTest,
  serviceTreeRows,
  type TreeRow,
  ZONE_PREFIX,
  type ZoneGroup,
} from "../state/filter.ts";
import { findingId, type ListTab } from "../state/state.ts";
import { counted, groupedNumber, objectTitle, readiness, shortNumber } from "../text/format.ts";
import type { Page } from "./page.ts";
import { HealthMark, Icon, SeverityMark } from "./parts.tsx";
import { VirtualTree } from "./virtual-tree.tsx";

/** A longer selection list is not usable; the search finds nodes. */
const NODE_OPTIONS_MAX = 300;
/** A search with few results opens their namespaces. */
const OPEN_RESULTS_MAX = 200;
const TYPES: ServiceType[] = ["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"];

export function ListPane({ page }: { page: Page }) {
  const { state, store } = page;
  const tabs: [ListTab, string, number][] = [
    ["services", "Services", page.cluster.services.size],
    ["nodes", "Nodes", page.cluster.nodes.size],
    ["findings", "Findings", state.findings.length],
  ];
  const onTabKey = (event: KeyboardEvent) => {
    const index = tabs.findIndex(([tab]) => tab === state.tab);
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    const next = tabs[(index + step + tabs.length) % tabs.length];
    if (step !== 0 && next !== undefined) {
      store.dispatch({ kind: "tab", tab: next[0] });
      document.getElementById(`tab-${next[0]}`)?.focus();
    }
  };
  return (
    <div class="list-pane">
      <div class="tabs" role="tablist" aria-label="Lists">
        {tabs.map(([tab, title, count]) => (
          <button
            type="button"
            key={tab}
            id={`tab-${tab}`}
            role="tab"
            aria-selected={state.tab === tab}
            aria-controls="list-panel"
            tabIndex={state.tab === tab ? 0 : -1}
            class="tab"
            onClick={() => store.dispatch({ kind: "tab", tab })}
            onKeyDown={onTabKey}
          >
            {title} <span class="count">{shortNumber(count)}</span>
          </button>
        ))}
      </div>
      <div id="list-panel" class="list-panel" role="tabpanel" aria-labelledby={`tab-${state.tab}`}>
        {state.tab === "services" && <ServiceList page={page} />}
        {state.tab === "nodes" && <NodeList page={page} />}
        {state.tab === "findings" && <FindingList page={page} />}
      </div>
    </div>
  );
}

function ServiceList({ page }: { page: Page }) {
  const { state, store, cluster, controller } = page;
  const { filter, selection } = state;
  const hasFilter = isFiltered(filter);
  const groups = useMemo(() => {
    const test = serviceTest(filter, cluster.nodes);
    return groupByNamespace([...cluster.services.values()].filter(test));
  }, [cluster.services, cluster.nodes, filter]);
  const count = groups.reduce((sum, group) => sum + group.services.length, 0);
  const isOpen = (namespace: string) =>
    state.opened.has(namespace) || (hasFilter && count <= OPEN_RESULTS_MAX) || groups.length === 1;
  const rows = useMemo(() => serviceTreeRows(groups, isOpen), [groups, state.opened, hasFilter]);
  const selected = selection.kind === "service" ? selection.key : selection.kind === "namespace" ? selection.name : "";
  const choose = (row: TreeRow<NamespaceGroup, ServiceRow>) => {
    if (row.kind === "child") {
      controller.select({ kind: "service", key: row.id });
    } else if (row.isOpen && selection.kind === "namespace" && selection.name === row.id) {
      store.dispatch({ kind: "open", namespace: row.id, isOpen: false });
      controller.select({ kind: "cluster" });
    } else {
      controller.select({ kind: "namespace", name: row.id });
    }
  };
  return (
    <>
      <Filters page={page} />
      {hasFilter && (
        <div class="filter-result">
          <span role="status">{counted(count, "match", "matches")}</span>
          <button type="button" class="link" onClick={() => store.dispatch({ kind: "filterReset" })}>
            Clear filters
          </button>
        </div>
      )}
      <VirtualTree
        id="service-tree"
        label="Services by namespace"
        rows={rows}
        rowHeight={34}
        selected={selected}
        empty={hasFilter ? "No Service matches the filters." : "The cluster has no Services."}
        onChoose={choose}
        onToggle={(namespace, open) => store.dispatch({ kind: "open", namespace, isOpen: open })}
        renderParent={(group, open) => <NamespaceRow group={group} isOpen={open} />}
        renderChild={(row) => <ServiceItem row={row} />}
      />
    </>
  );
}

function NamespaceRow({ group, isOpen }: { group: NamespaceGroup; isOpen: boolean }) {
  return (
    <>
      <span class={`chevron${isOpen ? " is-open" : ""}`}>
        <Icon name="chevron" />
      </span>
      <span class="row-name strong">{group.name}</span>
      {group.healths.error > 0 && (
        <span class="tally tally-error">
          <HealthMark health="error" title="errors:" />
          {shortNumber(group.healths.error)}
        </span>
      )}
      {group.healths.warning > 0 && (
        <span class="tally tally-warning">
          <HealthMark health="warning" title="warnings:" />
          {shortNumber(group.healths.warning)}
        </span>
      )}
      <span class="row-note">{groupedNumber(group.services.length)}</span>
    </>
  );
}

function ServiceItem({ row }: { row: ServiceRow }) {
  return (
    <>
      <HealthMark health={row.health} />
      <span class="row-name">{row.name}</span>
      <span class="row-note">{row.total === 0 && row.health === "idle" ? "–" : readiness(row).replace(" ready", "")}</span>
    </>
  );
}

function Filters({ page }: { page: Page }) {
  const { state, store, cluster } = page;
  const { filter } = state;
  const { namespaces, healths } = useMemo(() => {
    const counts: Record<Health, number> = { error: 0, warning: 0, ok: 0, idle: 0 };
    const names = new Set<string>();
    for (const row of cluster.services.values()) {
      counts[row.health] += 1;
      names.add(row.namespace);
    }
    return { healths: counts, namespaces: [...names].sort() };
  }, [cluster.services]);
  const zones = useMemo(() => groupByZone(cluster.nodes.values()), [cluster.nodes]);
  const nodeOptions = cluster.nodes.size <= NODE_OPTIONS_MAX ? [...cluster.nodes.keys()].sort() : [];
  const extra = [filter.namespace, filter.type, filter.place, filter.onlyWithFindings].filter(Boolean).length;
  return (
    <div class="filters">
      <fieldset class="chips">
        <legend class="visually-hidden">Health</legend>
        {HEALTHS.map((health) => (
          <button
            type="button"
            key={health}
            class="chip"
            aria-pressed={filter.health === health}
            onClick={() => store.dispatch({ kind: "filter", filter: { health: filter.health === health ? "" : health } })}
          >
            <HealthMark health={health} title="" />
            {HEALTH_TITLES[health]} <span class="count">{shortNumber(healths[health])}</span>
          </button>
        ))}
      </fieldset>
      <details class="more-filters" open={extra > 0}>
        <summary>More filters{extra > 0 && <span class="count"> {extra} active</span>}</summary>
        <div class="filter-grid">
          <FilterSelect
            label="Namespace"
            value={filter.namespace}
            options={namespaces}
            onChange={(namespace) => store.dispatch({ kind: "filter", filter: { namespace } })}
          />
          <FilterSelect
            label="Type"
            value={filter.type}
            options={TYPES}
            onChange={(type) => store.dispatch({ kind: "filter", filter: { type: type as ServiceType | "" } })}
          />
          <label class="field wide">
            <span>Zone or node of endpoints</span>
            <select
              value={filter.place}
              onChange={(event) => store.dispatch({ kind: "filter", filter: { place: event.currentTarget.value } })}
            >
              <option value="">all</option>
              {zones.map((zone) => (
                <option value={`${ZONE_PREFIX}${zone.name}`}>{zone.name === "" ? "no zone" : `zone ${zone.name}`}</option>
              ))}
              {filter.place !== "" && !filter.place.startsWith(ZONE_PREFIX) && !nodeOptions.includes(filter.place) && (
                <option value={filter.place}>{filter.place}</option>
              )}
              {nodeOptions.map((node) => (
                <option value={node}>{node}</option>
              ))}
            </select>
          </label>
          <label class="check wide">
            <input
              type="checkbox"
              checked={filter.onlyWithFindings}
              onChange={(event) => store.dispatch({ kind: "filter", filter: { onlyWithFindings: event.currentTarget.checked } })}
            />
            Only Services with findings
          </label>
        </div>
      </details>
    </div>
  );
}

function FilterSelect(props: { label: string; value: string; options: string[]; onChange: (value: string) => void }) {
  return (
    <label class="field">
      <span>{props.label}</span>
      <select value={props.value} onChange={(event) => props.onChange(event.currentTarget.value)}>
        <option value="">all</option>
        {props.value !== "" && !props.options.includes(props.value) && <option value={props.value}>{props.value}</option>}
        {props.options.map((option) => (
          <option value={option}>{option}</option>
        ))}
      </select>
    </label>
  );
}

function NodeList({ page }: { page: Page }) {
  const { cluster, controller, state } = page;
  const rows = useMemo(() => nodeTreeRows(groupByZone(cluster.nodes.values())), [cluster.nodes]);
  const choose = (row: TreeRow<ZoneGroup, NodeRow>) => {
    if (row.kind === "child") {
      controller.select({ kind: "node", name: row.id });
    }
  };
  return (
    <VirtualTree
      id="node-tree"
      label="Nodes by zone"
      rows={rows}
      rowHeight={34}
      selected={state.selection.kind === "node" ? state.selection.name : ""}
      empty="The cluster has no nodes."
      onChoose={choose}
      onToggle={() => undefined}
      renderParent={(zone) => (
        <>
          <span class="row-name strong">{zone.name === "" ? "no zone" : `zone ${zone.name}`}</span>
          <span class="row-note">{counted(zone.nodes.length, "node")}</span>
        </>
      )}
      renderChild={(node) => (
        <>
          <HealthMark health={node.health} />
          <span class="row-name">{node.name}</span>
          {!node.ready && <span class="tag tag-error">not ready</span>}
          {!node.schedulable && <span class="tag">cordoned</span>}
          <span class="row-note">{groupedNumber(node.endpoints)}</span>
        </>
      )}
    />
  );
}

function FindingList({ page }: { page: Page }) {
  const { state, controller } = page;
  const rows = useMemo(
    () =>
      state.findings.map(
        (finding, index): TreeRow<Finding, Finding> => ({
          kind: "child",
          id: findingId(finding),
          value: finding,
          size: state.findings.length,
          position: index + 1,
        }),
      ),
    [state.findings],
  );
  return (
    <>
      {rows.length > 0 && <p class="list-note">The most likely cause comes first.</p>}
      <VirtualTree
        id="finding-tree"
        label="Findings, most likely cause first"
        rows={rows}
        rowHeight={66}
        isFlat
        selected={state.selection.kind === "finding" ? state.selection.id : ""}
        empty="No findings. The checks of portolan doctor found no cause for a failure."
        onChoose={(row) => controller.select({ kind: "finding", id: row.id })}
        onToggle={() => undefined}
        renderParent={() => null}
        renderChild={(finding) => (
          <div class="finding-row">
            <SeverityMark severity={finding.severity} />
            <div class="finding-row-text">
              <span class="row-name strong">{objectTitle(finding.object)}</span>
              <span class="row-sub">{finding.message}</span>
            </div>
            <span class="code">{finding.code}</span>
          </div>
        )}
      />
    </>
  );
}
