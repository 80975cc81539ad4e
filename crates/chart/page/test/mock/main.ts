// `npm run mock -- [SERVICES|shop|hostile|empty] [PORT]`: the page with a generated cluster that changes.

import { join } from "node:path";
import { largeCluster, shopCluster } from "./cluster.ts";
import { hostileCluster } from "./hostile.ts";
import { MockServer } from "./server.ts";

const [kind = "shop", port = "8700", token] = process.argv.slice(2);
const cluster =
  kind === "shop"
    ? shopCluster()
    : kind === "hostile"
      ? hostileCluster()
      : kind === "empty"
        ? { ...shopCluster(), services: [], nodes: [], findings: [] }
        : largeCluster(Number(kind));
const server = new MockServer(cluster, join(process.cwd(), "../assets"), token ?? null);
console.log(await server.start(Number(port)));

const CHANGE_MILLISECONDS = 2_000;
setInterval(() => {
  const rows = cluster.services.slice(0, 200).map((row) => ({
    ...row,
    traffic:
      row.traffic === null
        ? null
        : {
            ...row.traffic,
            connectionsPerSecond: Math.round(row.traffic.connectionsPerSecond * (0.9 + Math.random() * 0.2) * 10) / 10,
          },
  }));
  server.change(rows);
}, CHANGE_MILLISECONDS);
