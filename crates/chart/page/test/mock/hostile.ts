// Cluster whose texts attack the page: markup, reordering, control characters, very long names.

import { type MockCluster, shopCluster } from "./cluster.ts";

export const HOSTILE_TEXTS = [
  "<img src=x onerror=window.injected=1>",
  "<script>window.injected=1</script>",
  '"><svg onload=window.injected=1>',
  "javascript:window.injected=1",
  "\u202eexe.fdp\u202c",
  "a\u0000b\u0007c\u001b[31md\u0085",
  "\u2066\u200f\u200bzero\ufeff",
  "x".repeat(20_000),
  "{{constructor.constructor('window.injected=1')()}}",
  "__proto__",
];

export function hostileCluster(): MockCluster {
  const cluster = shopCluster();
  cluster.name = HOSTILE_TEXTS[0] ?? "";
  cluster.services = cluster.services.map((row, index) => {
    const text = HOSTILE_TEXTS[index % HOSTILE_TEXTS.length] ?? "";
    const isNamespace = index % 3 === 0;
    return {
      ...row,
      namespace: isNamespace ? text : row.namespace,
      name: isNamespace ? row.name : `${text}${index}`,
      frontends: row.frontends.map((frontend) => ({ ...frontend, address: text, portName: text })),
      nodes: row.nodes.map(([node, ready, total]) => [node === "node-a" ? text : node, ready, total]),
    };
  });
  cluster.nodes = cluster.nodes.map((node, index) => ({
    ...node,
    name: HOSTILE_TEXTS[index] ?? node.name,
    zone: HOSTILE_TEXTS[index + 2] ?? "",
    addresses: HOSTILE_TEXTS.slice(0, 3),
  }));
  cluster.findings = HOSTILE_TEXTS.map((text, index) => ({
    code: `PTL-${text.slice(0, 40)}`,
    severity: "error",
    object: { kind: text, namespace: text, name: text },
    field: text,
    message: text,
    remedy: text,
    title: text,
    documentation: `# ${text}\n\n${text} [click](javascript:window.injected=1) [data](data:text/html,${text}) **${text}** \`${text}\`\n\n| ${text} | b |\n|---|---|\n| ${text} | c |\n\n<iframe srcdoc="${text}"></iframe>\n\n- ${text}\n`,
    services: cluster.services.slice(index, index + 2).map((row) => `${row.namespace}/${row.name}`),
  }));
  return cluster;
}
