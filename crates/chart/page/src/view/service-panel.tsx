// A Service: findings, frontends, endpoints by zone and node, clients, policies. The equal of its diagram.

import { useState } from "preact/hooks";
import type { ClientRow, EndpointRow, Frontend, ServiceDetail, ServiceRow } from "../contract.ts";
import { endpointState } from "../map/service-diagram.ts";
import { byText } from "../state/filter.ts";
import { serviceKey } from "../state/state.ts";
import {
  bytesPerSecond,
  counted,
  FRONTEND_TITLES,
  frontendAddress,
  groupedNumber,
  readiness,
  shortNumber,
  typeTitle,
} from "../text/format.ts";
import { FindingCard } from "./finding-card.tsx";
import type { Page } from "./page.ts";
import { HealthMark, Pairs, Section } from "./parts.tsx";

/** Rows that a table shows before the user asks for more. */
const ROWS_FIRST = 50;
const ROWS_STEP = 250;

export function ServicePanel({ page, name }: { page: Page; name: string }) {
  const row = page.cluster.services.get(name);
  const { detail: state, past } = page.state;
  if (row === undefined) {
    return (
      <div class="panel-body">
        <h2>{name}</h2>
        <p class="empty">
          {past === null ? "The Service does not exist, or you may not read it." : "The Service did not exist at this time."}
        </p>
      </div>
    );
  }
  const detail = past === null && state.kind === "loaded" && state.key === name ? state.detail : null;
  return (
    <div class="panel-body" data-service={name}>
      <ServiceHead row={row} page={page} />
      {past !== null && (
        <p class="hint">The history holds endpoints by node. Addresses, clients and findings are shown for the present only.</p>
      )}
      {past === null && state.kind === "failed" && <p class="alert">{state.message}</p>}
      {detail !== null && detail.findings.length > 0 && (
        <Section title="Findings" note={String(detail.findings.length)}>
          {detail.findings.map((finding, index) => (
            <FindingCard key={`${finding.code}${index}`} finding={finding} page={page} />
          ))}
        </Section>
      )}
      <Frontends row={row} page={page} />
      {detail === null ? <EndpointsByNode row={row} page={page} /> : <Endpoints detail={detail} page={page} />}
      {detail !== null && <Clients detail={detail} page={page} />}
      {detail !== null && <Specification detail={detail} />}
    </div>
  );
}

function ServiceHead({ row, page }: { row: ServiceRow; page: Page }) {
  return (
    <header class="panel-head">
      <p class="kicker">
        Service in{" "}
        <button type="button" class="link" onClick={() => page.controller.select({ kind: "namespace", name: row.namespace })}>
          {row.namespace}
        </button>
      </p>
      <h2>{row.name}</h2>
      <p class="badges">
        <span class={`badge badge-${row.health}`}>
          <HealthMark health={row.health} />
          {readiness(row)}
        </span>
        <span class="badge">{typeTitle(row)}</span>
        {row.serving > row.ready && <span class="badge">{row.serving} serving</span>}
        {row.terminating > 0 && <span class="badge">{row.terminating} terminating</span>}
      </p>
      {row.traffic !== null && (
        <p class="figures">
          <b>{shortNumber(row.traffic.connectionsPerSecond)}</b> connections/s · <b>{shortNumber(row.traffic.connections)}</b>{" "}
          open
          {row.traffic.bytesPerSecond !== null && (
            <>
              {" · "}
              <b>{bytesPerSecond(row.traffic.bytesPerSecond)}</b>
            </>
          )}
          {row.traffic.failed > 0 && <span class="failed"> · {shortNumber(row.traffic.failed)} failed</span>}
        </p>
      )}
    </header>
  );
}

/** URL of a trace to a frontend; a cluster IP is named as clients name it. */
function traceUrl(row: ServiceRow, frontend: Frontend): string {
  const scheme = frontend.protocol.toLowerCase();
  const host = frontend.kind === "clusterIP" || frontend.address === "" ? `${row.name}.${row.namespace}` : frontend.address;
  return `${scheme}://${host.includes(":") ? `[${host}]` : host}:${frontend.port}`;
}

function Frontends({ row, page }: { row: ServiceRow; page: Page }) {
  return (
    <Section title="Frontends" note={String(row.frontends.length)}>
      {row.frontends.length === 0 ? (
        <p class="empty">{row.headless ? "Headless: cluster DNS answers with the endpoints." : "No frontends."}</p>
      ) : (
        <table class="table">
          <thead>
            <tr>
              <th scope="col">Kind</th>
              <th scope="col">Address</th>
              <th scope="col">Port</th>
              <th scope="col">
                <span class="visually-hidden">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {row.frontends.map((frontend) => (
              <tr>
                <td>{FRONTEND_TITLES[frontend.kind]}</td>
                <td class="mono">{frontend.kind === "nodePort" ? `every node, ${frontend.port}` : frontendAddress(frontend)}</td>
                <td>
                  {frontend.protocol}
                  {frontend.portName !== "" && ` ${frontend.portName}`}
                </td>
                <td class="right">
                  {frontend.kind !== "externalName" && frontend.kind !== "nodePort" && (
                    <button
                      type="button"
                      class="link"
                      aria-label={`Trace a connection to ${frontendAddress(frontend)}`}
                      onClick={() =>
                        page.store.dispatch({ kind: "traceOpen", isOpen: true, form: { url: traceUrl(row, frontend) } })
                      }
                    >
                      Trace
                    </button>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Section>
  );
}

function EndpointsByNode({ row, page }: { row: ServiceRow; page: Page }) {
  return (
    <Section title="Endpoints by node" note={`${row.ready}/${row.total} ready`}>
      {row.nodes.length === 0 ? (
        <p class="empty">{row.health === "idle" ? "No endpoints expected." : "No endpoints: connections fail."}</p>
      ) : (
        <table class="table">
          <thead>
            <tr>
              <th scope="col">Node</th>
              <th scope="col">Zone</th>
              <th scope="col" class="right">
                Ready
              </th>
            </tr>
          </thead>
          <tbody>
            {row.nodes.map(([node, ready, total]) => (
              <tr>
                <td>
                  <NodeLink name={node} page={page} />
                </td>
                <td>{page.cluster.nodes.get(node)?.zone ?? ""}</td>
                <td class="right">
                  {ready}/{total}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Section>
  );
}

export function NodeLink({ name, page }: { name: string; page: Page }) {
  if (name === "") {
    return <span class="muted">no node</span>;
  }
  return (
    <button type="button" class="link" onClick={() => page.controller.select({ kind: "node", name })}>
      {name}
    </button>
  );
}

function Endpoints({ detail, page }: { detail: ServiceDetail; page: Page }) {
  const { row, endpoints, endpointsOmitted } = detail;
  const [limit, setLimit] = useState(ROWS_FIRST);
  const sorted = [...endpoints].sort(
    (left, right) => byText(left.zone, right.zone) || byText(left.node, right.node) || byText(left.address, right.address),
  );
  return (
    <Section title="Endpoints" note={`${groupedNumber(row.ready)}/${groupedNumber(row.total)} ready`}>
      {endpoints.length === 0 ? (
        <p class="empty">{row.health === "idle" ? "No endpoints expected." : "No endpoints: connections fail."}</p>
      ) : (
        <table class="table">
          <thead>
            <tr>
              <th scope="col">Endpoint</th>
              <th scope="col">Node</th>
              <th scope="col" class="right">
                Conn./s
              </th>
            </tr>
          </thead>
          <tbody>
            {sorted.slice(0, limit).map((endpoint) => (
              <EndpointLine key={`${endpoint.address} ${endpoint.ports}`} endpoint={endpoint} page={page} />
            ))}
          </tbody>
        </table>
      )}
      <More shown={limit} total={endpoints.length} onMore={() => setLimit(limit + ROWS_STEP)} />
      {endpointsOmitted > 0 && <p class="hint">{counted(endpointsOmitted, "further endpoint")} not sent by the server.</p>}
    </Section>
  );
}

function EndpointLine({ endpoint, page }: { endpoint: EndpointRow; page: Page }) {
  return (
    <tr>
      <td>
        <div class="endpoint">
          <HealthMark
            health={endpoint.ready ? "ok" : endpoint.serving ? "warning" : endpoint.terminating ? "idle" : "error"}
            title={endpointState(endpoint)}
          />
          <span>
            {endpoint.pod !== "" && <span class="endpoint-pod">{endpoint.pod}</span>}
            <span class="mono sub">
              {endpoint.address} {endpoint.ports}
            </span>
            {!endpoint.ready && <span class="sub state">{endpointState(endpoint)}</span>}
          </span>
        </div>
      </td>
      <td>
        <NodeLink name={endpoint.node} page={page} />
        {endpoint.zone !== "" && <span class="sub">{endpoint.zone}</span>}
      </td>
      <td class="right">{endpoint.traffic === null ? "–" : shortNumber(endpoint.traffic.connectionsPerSecond)}</td>
    </tr>
  );
}

function More({ shown, total, onMore }: { shown: number; total: number; onMore: () => void }) {
  return total > shown ? (
    <button type="button" class="button small" onClick={onMore}>
      Show more: {groupedNumber(total - shown)} hidden
    </button>
  ) : null;
}

const CLIENT_TITLES = { pod: "Pod", node: "Node", external: "external" };

function Clients({ detail, page }: { detail: ServiceDetail; page: Page }) {
  const [limit, setLimit] = useState(ROWS_FIRST);
  const clients = [...detail.clients].sort(
    (left, right) => right.traffic.connectionsPerSecond - left.traffic.connectionsPerSecond,
  );
  return (
    <Section title="Clients" note={detail.row.traffic === null ? "" : `busiest ${clients.length}`}>
      {clients.length === 0 ? (
        <p class="empty">
          {page.cluster.trafficKnown ? "No client connects at present." : "Not known: no flows of nodes are read."}
        </p>
      ) : (
        <table class="table">
          <thead>
            <tr>
              <th scope="col">Client</th>
              <th scope="col" class="right">
                Conn./s
              </th>
              <th scope="col" class="right">
                Failed
              </th>
            </tr>
          </thead>
          <tbody>
            {clients.slice(0, limit).map((client) => (
              <ClientLine key={client.address} client={client} page={page} />
            ))}
          </tbody>
        </table>
      )}
      <More shown={limit} total={clients.length} onMore={() => setLimit(limit + ROWS_STEP)} />
    </Section>
  );
}

function ClientLine({ client, page }: { client: ClientRow; page: Page }) {
  const from = client.kind === "pod" ? `pod/${client.name}` : client.kind === "node" ? `node/${client.name}` : client.address;
  return (
    <tr>
      <td>
        {client.name !== "" && <span class="endpoint-pod">{client.name}</span>}
        <span class="mono sub">
          {client.address} · {CLIENT_TITLES[client.kind]}
          {client.node !== "" && ` on ${client.node}`}
        </span>
        <button
          type="button"
          class="link sub"
          aria-label={`Trace from ${client.name === "" ? client.address : client.name}`}
          onClick={() => page.store.dispatch({ kind: "traceOpen", isOpen: true, form: { from } })}
        >
          Trace from here
        </button>
      </td>
      <td class="right">{shortNumber(client.traffic.connectionsPerSecond)}</td>
      <td class={`right${client.traffic.failed > 0 ? " failed" : ""}`}>{shortNumber(client.traffic.failed)}</td>
    </tr>
  );
}

function Specification({ detail }: { detail: ServiceDetail }) {
  const { policies, selector, labels } = detail;
  const text = (record: Record<string, string>) => Object.entries(record).map(([key, value]) => `${key}=${value}`);
  const list = (entries: string[]) =>
    entries.length === 0 ? "none" : entries.map((entry) => <code class="label">{entry}</code>);
  return (
    <Section title="Specification">
      <Pairs
        pairs={[
          ["Selector", list(text(selector))],
          ["Labels", list(text(labels))],
          ["internalTrafficPolicy", policies.internalTrafficPolicy || "–"],
          ["externalTrafficPolicy", policies.externalTrafficPolicy || "–"],
          ["sessionAffinity", policies.sessionAffinity || "–"],
          ["trafficDistribution", policies.trafficDistribution || "–"],
        ]}
      />
    </Section>
  );
}

export function ServiceLink({ row, page }: { row: ServiceRow; page: Page }) {
  const key = serviceKey(row);
  return (
    <button type="button" class="link" onClick={() => page.controller.select({ kind: "service", key })}>
      {key}
    </button>
  );
}
