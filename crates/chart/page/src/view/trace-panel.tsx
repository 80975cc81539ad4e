// Trace of a connection: form, verdict, and the decisions as steps.

import { useEffect, useRef } from "preact/hooks";
import type { Trace, TracePath } from "../contract.ts";
import { clientTitle, verdictHealth } from "../map/trace-overlay.ts";
import { counted, hostAndPort, objectTitle, percent } from "../text/format.ts";
import { FindingCard } from "./finding-card.tsx";
import type { Page } from "./page.ts";
import { HealthMark, Section } from "./parts.tsx";

const STEP_TITLES: Record<string, string> = { sourceRanges: "source ranges", trafficPolicy: "traffic policy" };
/** More lines hide the decision. */
const ENDPOINTS_SHOWN_MAX = 30;

export function TracePanel({ page }: { page: Page }) {
  const { form, result } = page.state.trace;
  const url = useRef<HTMLInputElement>(null);
  const from = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (result.kind !== "none") {
      return;
    }
    (url.current?.value === "" ? url : from).current?.focus();
  }, []);
  const submit = (event: Event) => {
    event.preventDefault();
    const values = { url: url.current?.value.trim() ?? "", from: from.current?.value.trim() ?? "" };
    if (values.url !== "" && values.from !== "") {
      void page.controller.trace(values);
    }
  };
  return (
    <div class="panel-body" data-trace={result.kind}>
      <header class="panel-head">
        <p class="kicker">Connection</p>
        <h2>Trace</h2>
      </header>
      <form class="trace-form" onSubmit={submit}>
        <label class="field wide">
          <span>URL</span>
          <input
            ref={url}
            name="url"
            required
            autocomplete="off"
            spellcheck={false}
            placeholder="tcp://web.shop:80"
            defaultValue={form.url}
            key={`url ${form.url}`}
          />
        </label>
        <label class="field wide">
          <span>From</span>
          <input
            ref={from}
            name="from"
            required
            autocomplete="off"
            spellcheck={false}
            placeholder="pod/shop/cart-1, node/node-a or an IP address"
            defaultValue={form.from}
            key={`from ${form.from}`}
          />
        </label>
        <button type="submit" class="button primary" disabled={result.kind === "running"}>
          {result.kind === "running" ? "Tracing…" : "Trace"}
        </button>
      </form>
      {page.state.past !== null && <p class="hint">The trace uses the present objects.</p>}
      <div aria-live="polite">
        {result.kind === "failed" && <p class="alert">{result.message}</p>}
        {result.kind === "done" && <TraceResult trace={result.trace} page={page} />}
      </div>
      {result.kind === "none" && (
        <p class="hint">
          The trace reads objects only and sends no packet. It shows the names that the resolver tries, the decision of the node
          proxy, and the endpoints with their chances.
        </p>
      )}
    </div>
  );
}

function TraceResult({ trace, page }: { trace: Trace; page: Page }) {
  const health = verdictHealth(trace.verdict);
  return (
    <>
      <div class={`verdict verdict-${health}`}>
        <HealthMark health={health} title="" />
        <div>
          <b>{trace.verdict}</b>
          <p>{trace.reason}</p>
          <p class="sub">
            {trace.destination.url} from {clientTitle(trace)}
            {trace.client.node !== "" && trace.client.kind === "Pod" && ` on ${trace.client.node}`}
          </p>
        </div>
      </div>
      {trace.name !== null && (
        <Section title="Name" note={trace.name.resolver.nameServers === "cluster" ? "cluster DNS" : "outside resolver"}>
          <ol class="steps">
            <li>
              <span class="step-title">resolver</span>
              {trace.name.resolver.reason}
            </li>
            {trace.name.tried.map((tried) => (
              <li>
                <span class="step-title">{tried.answer}</span>
                <span class="mono">{tried.name}</span>
                {(tried.addresses ?? []).length > 0 && <span class="mono sub">{(tried.addresses ?? []).join(", ")}</span>}
              </li>
            ))}
          </ol>
        </Section>
      )}
      {trace.paths.map((path) => (
        <PathSteps path={path} />
      ))}
      {trace.findings.length > 0 && (
        <Section title="Findings" note={String(trace.findings.length)}>
          {trace.findings.map((finding) => (
            <FindingCard finding={finding} page={page} />
          ))}
        </Section>
      )}
    </>
  );
}

function PathSteps({ path }: { path: TracePath }) {
  return (
    <Section
      title={`To ${path.addresses.join(", ")}`}
      note={
        path.nodes.length === 0
          ? ""
          : `decided by ${path.nodes.length > 3 ? counted(path.nodes.length, "node") : path.nodes.join(", ")}`
      }
    >
      <ol class="steps">
        {path.steps.map((step) => (
          <li>
            <span class="step-title">{STEP_TITLES[step.step] ?? step.step}</span>
            {step.result}
            {step.object !== null && (
              <span class="sub">
                {objectTitle(step.object)} <code>{step.field}</code>
              </span>
            )}
          </li>
        ))}
      </ol>
      {path.endpoints.length > 0 && (
        <ul class="chances" aria-label="Endpoints that get the connection">
          {path.endpoints.slice(0, ENDPOINTS_SHOWN_MAX).map((endpoint) => (
            <li>
              <span class="chance">{percent(endpoint.chance)}</span>
              <span>
                <span class="mono">{hostAndPort(endpoint.address, endpoint.port)}</span>
                <span class="sub">
                  {endpoint.pod}
                  {endpoint.node !== "" && ` on ${endpoint.node}`}
                  {endpoint.masquerade && " · masqueraded"}
                </span>
              </span>
            </li>
          ))}
        </ul>
      )}
      {path.excluded.length > 0 && (
        <>
          <h4 class="minor">Not used</h4>
          <ul class="chances">
            {path.excluded.slice(0, ENDPOINTS_SHOWN_MAX).map((endpoint) => (
              <li>
                <span class="chance muted">–</span>
                <span>
                  <span class="mono">{hostAndPort(endpoint.address, endpoint.port)}</span>
                  <span class="sub">{endpoint.reason}</span>
                </span>
              </li>
            ))}
          </ul>
        </>
      )}
      <p class={`path-verdict text-${verdictHealth(path.verdict)}`}>{path.reason}</p>
    </Section>
  );
}
