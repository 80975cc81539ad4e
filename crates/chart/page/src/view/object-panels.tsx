// Panels of the cluster, of a namespace, of a node and of a finding.

import { useMemo, useState } from "preact/hooks";
import type { ServiceRow } from "../contract.ts";
import { byText, groupByNamespace, HEALTH_TITLES, HEALTHS, servicesOn } from "../state/filter.ts";
import { findingId } from "../state/state.ts";
import { counted, groupedNumber, objectTitle, readiness, shortNumber, typeTitle } from "../text/format.ts";
import { FindingCard } from "./finding-card.tsx";
import type { Page } from "./page.ts";
import { HealthMark, Pairs, Section, SeverityMark } from "./parts.tsx";
import { ServiceLink } from "./service-panel.tsx";

const ROWS_MAX = 100;
const FINDINGS_FIRST = 6;
const BUSIEST = 8;

export function ClusterPanel({ page }: { page: Page }) {
  const { cluster, state, controller } = page;
  const busiest = useMemo(
    () =>
      [...cluster.services.values()]
        .filter((row) => (row.traffic?.connectionsPerSecond ?? 0) > 0)
        .sort((left, right) => (right.traffic?.connectionsPerSecond ?? 0) - (left.traffic?.connectionsPerSecond ?? 0))
        .slice(0, BUSIEST),
    [cluster.services],
  );
  return (
    <div class="panel-body">
      <header class="panel-head">
        <p class="kicker">Cluster</p>
        <h2>{cluster.name === "" ? "Overview" : cluster.name}</h2>
      </header>
      <HealthSums rows={[...cluster.services.values()]} />
      <Section
        title="Most likely causes"
        note={state.findings.length > FINDINGS_FIRST ? `${FINDINGS_FIRST} of ${groupedNumber(state.findings.length)}` : ""}
      >
        {state.findings.length === 0 ? (
          <p class="empty">No findings.</p>
        ) : (
          <ul class="causes">
            {state.findings.slice(0, FINDINGS_FIRST).map((finding) => (
              <li key={findingId(finding)}>
                <button
                  type="button"
                  class="cause"
                  onClick={() => controller.select({ kind: "finding", id: findingId(finding) })}
                >
                  <SeverityMark severity={finding.severity} />
                  <span>
                    <b>{finding.title}</b>
                    <span class="sub">{objectTitle(finding.object)}</span>
                  </span>
                  <span class="code">{finding.code}</span>
                </button>
              </li>
            ))}
          </ul>
        )}
      </Section>
      <Section title="Busiest Services">
        {busiest.length === 0 ? (
          <p class="empty">{cluster.trafficKnown ? "No traffic." : "Traffic is not known: no flows of nodes are read."}</p>
        ) : (
          <table class="table">
            <tbody>
              {busiest.map((row) => (
                <tr>
                  <td>
                    <ServiceLink row={row} page={page} />
                  </td>
                  <td class="right">{shortNumber(row.traffic?.connectionsPerSecond ?? 0)}/s</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </Section>
    </div>
  );
}

function HealthSums({ rows }: { rows: ServiceRow[] }) {
  return (
    <ul class="sums">
      {HEALTHS.map((health) => (
        <li>
          <HealthMark health={health} title="" />
          <b>{groupedNumber(rows.filter((row) => row.health === health).length)}</b>
          <span>{HEALTH_TITLES[health]}</span>
        </li>
      ))}
    </ul>
  );
}

export function NamespacePanel({ page, name }: { page: Page; name: string }) {
  const group = useMemo(
    () => groupByNamespace([...page.cluster.services.values()].filter((row) => row.namespace === name))[0],
    [page.cluster.services, name],
  );
  const worstFirst = [...(group?.services ?? [])].sort(
    (left, right) => HEALTHS.indexOf(left.health) - HEALTHS.indexOf(right.health) || byText(left.name, right.name),
  );
  return (
    <div class="panel-body">
      <header class="panel-head">
        <p class="kicker">Namespace</p>
        <h2>{name}</h2>
      </header>
      {group === undefined ? (
        <p class="empty">The namespace has no Services.</p>
      ) : (
        <>
          <HealthSums rows={group.services} />
          <Section title="Services" note={groupedNumber(group.services.length)}>
            <ServiceTable rows={worstFirst} page={page} />
          </Section>
        </>
      )}
    </div>
  );
}

function ServiceTable({ rows, page }: { rows: ServiceRow[]; page: Page }) {
  const [limit, setLimit] = useState(ROWS_MAX);
  return (
    <>
      <table class="table">
        <thead>
          <tr>
            <th scope="col">Service</th>
            <th scope="col">Type</th>
            <th scope="col" class="right">
              Endpoints
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, limit).map((row) => (
            <tr>
              <td>
                <span class="endpoint">
                  <HealthMark health={row.health} />
                  <ServiceLink row={row} page={page} />
                </span>
              </td>
              <td>{typeTitle(row)}</td>
              <td class="right">{readiness(row).replace(" ready", "").replace("no endpoints expected", "–")}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > limit && (
        <button type="button" class="button small" onClick={() => setLimit(limit + ROWS_MAX)}>
          Show more: {groupedNumber(rows.length - limit)} hidden
        </button>
      )}
    </>
  );
}

export function NodePanel({ page, name }: { page: Page; name: string }) {
  const node = page.cluster.nodes.get(name);
  const services = useMemo(() => servicesOn(page.cluster.services.values(), name), [page.cluster.services, name]);
  const findings = page.state.findings.filter((finding) => finding.object.kind === "Node" && finding.object.name === name);
  if (node === undefined) {
    return (
      <div class="panel-body">
        <h2>{name}</h2>
        <p class="empty">The Node does not exist.</p>
      </div>
    );
  }
  return (
    <div class="panel-body">
      <header class="panel-head">
        <p class="kicker">Node{node.zone !== "" && ` in zone ${node.zone}`}</p>
        <h2>{node.name}</h2>
        <p class="badges">
          <span class={`badge badge-${node.health}`}>
            <HealthMark health={node.health} />
            {node.ready ? "ready" : "not ready"}
          </span>
          {!node.schedulable && <span class="badge">cordoned</span>}
          <span class="badge">{counted(node.endpoints, "endpoint")}</span>
        </p>
      </header>
      <Pairs
        pairs={[
          [
            "Addresses",
            node.addresses.length === 0 ? "–" : node.addresses.map((address) => <code class="label">{address}</code>),
          ],
        ]}
      />
      {findings.length > 0 && (
        <Section title="Findings" note={String(findings.length)}>
          {findings.map((finding) => (
            <FindingCard key={findingId(finding)} finding={finding} page={page} />
          ))}
        </Section>
      )}
      <Section title="Services with endpoints here" note={groupedNumber(services.length)}>
        {services.length === 0 ? <p class="empty">None.</p> : <ServiceTable rows={services} page={page} />}
      </Section>
    </div>
  );
}

export function FindingPanel({ page, id }: { page: Page; id: string }) {
  const finding = page.state.findings.find((entry) => findingId(entry) === id);
  return (
    <div class="panel-body">
      <header class="panel-head">
        <p class="kicker">Finding</p>
        <h2>{finding === undefined ? (id.split("|")[0] ?? "") : finding.title}</h2>
      </header>
      {finding === undefined ? (
        <p class="empty">The finding no longer applies.</p>
      ) : (
        <FindingCard finding={{ ...finding, title: objectTitle(finding.object) }} page={page} isAlone />
      )}
    </div>
  );
}
