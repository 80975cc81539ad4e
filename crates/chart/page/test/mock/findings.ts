// Findings of generated clusters. Their documentation is that of docs/findings.md.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Finding, Severity } from "../../src/contract.ts";

const page = readFileSync(join(process.env.PORTOLAN_PAGE ?? process.cwd(), "../../../docs/findings.md"), "utf8");

function section(code: string): { title: string; documentation: string } {
  const body = page.split(`\n## ${code}\n`)[1]?.split("\n## ")[0]?.trim() ?? "";
  const [first = "", ...rest] = body.split("\n\n");
  return { title: first.replace(/\.$/, ""), documentation: rest.join("\n\n") };
}

const TEXTS: Record<
  string,
  [severity: Severity, field: string, message: (name: string) => string, remedy: (namespace: string, name: string) => string]
> = {
  "PTL-0002": [
    "error",
    "spec.selector",
    (name) =>
      `The selector app=${name} matches no Pod. The nearest is Pod ${name}-7d9fbb, which has run=${name} instead of app=${name}`,
    (namespace, name) => `kubectl -n ${namespace} set selector service ${name} 'run=${name}'`,
  ],
  "PTL-0004": [
    "warning",
    "spec.selector",
    (name) => `1 of 4 Pods is not ready: the readiness probe of Pod ${name}-x2k fails with status 503`,
    (namespace, name) => `kubectl -n ${namespace} describe pods -l app=${name}`,
  ],
  "PTL-0006": [
    "error",
    "spec.ports[0].targetPort",
    (name) => `Target port 8080 is not a port of the containers of Pod ${name}-k3f, which declare 80`,
    (namespace, name) =>
      `kubectl -n ${namespace} patch service ${name} --type=json -p '[{"op":"replace","path":"/spec/ports/0/targetPort","value":80}]'`,
  ],
  "PTL-0022": [
    "error",
    "status.loadBalancer",
    () => "No load-balancer IP is assigned since 14 minutes: no AddressPool selects the Service",
    (namespace, name) => `kubectl -n ${namespace} describe service ${name}`,
  ],
  "PTL-0025": [
    "warning",
    "spec.externalTrafficPolicy",
    () =>
      "externalTrafficPolicy is Local, and 2 of 6 nodes have no ready endpoint. Connections from outside that reach these nodes are dropped",
    (namespace, name) => `kubectl -n ${namespace} patch service ${name} -p '{"spec":{"externalTrafficPolicy":"Cluster"}}'`,
  ],
  "PTL-0028": [
    "info",
    "spec.sessionAffinity",
    () => "sessionAffinity is ClientIP, and all clients have the address of one proxy",
    (namespace, name) => `kubectl -n ${namespace} patch service ${name} -p '{"spec":{"sessionAffinity":"None"}}'`,
  ],
};

export function findingText(code: string, namespace: string, name: string): Finding {
  const [severity, field, message, remedy] = TEXTS[code] ?? ["info", "", () => "", () => ""];
  return {
    code,
    severity,
    object: { kind: "Service", namespace, name },
    field,
    message: message(name),
    remedy: remedy(namespace, name),
    ...section(code),
    services: [`${namespace}/${name}`],
  };
}
