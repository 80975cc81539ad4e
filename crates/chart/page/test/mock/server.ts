// Server of the contract with a generated cluster, for development and tests. The real server is in crates/chart/src.

import { readFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import type { Change, Finding, ServiceRow } from "../../src/contract.ts";
import { detailOf, historyOf, type MockCluster, NOW, pastSnapshot, snapshotOf, totalsOf } from "./cluster.ts";
import { traceOf } from "./trace.ts";

export const CONTENT_SECURITY_POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

const TYPES: Record<string, string> = {
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  css: "text/css; charset=utf-8",
  svg: "image/svg+xml",
};

export class MockServer {
  /** Requests to `api/events`, with their revisions. */
  readonly followed: number[] = [];
  isDown = false;
  private readonly server: Server;
  private readonly streams = new Set<ServerResponse>();

  constructor(
    readonly cluster: MockCluster,
    private readonly assets: string,
    /** Token that the server requires; `null` for a local session. */
    private readonly token: string | null = null,
  ) {
    this.server = createServer((request, response) => {
      this.respond(request, response).catch((error: unknown) => {
        response.writeHead(500).end(String(error));
      });
    });
  }

  async start(port = 0): Promise<string> {
    await new Promise<void>((resolve) => this.server.listen(port, "127.0.0.1", resolve));
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}/`;
  }

  async stop(): Promise<void> {
    this.dropStreams();
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  dropStreams(): void {
    for (const stream of this.streams) {
      stream.destroy();
    }
    this.streams.clear();
  }

  /** Changes Services and sends the change. */
  change(services: ServiceRow[], removed: string[] = []): void {
    const { cluster } = this;
    cluster.revision += 1;
    const changed = new Map(services.map((row) => [`${row.namespace}/${row.name}`, row]));
    cluster.services = cluster.services
      .map((row) => changed.get(`${row.namespace}/${row.name}`) ?? row)
      .filter((row) => !removed.includes(`${row.namespace}/${row.name}`));
    for (const row of services) {
      if (!cluster.services.includes(row)) {
        cluster.services.push(row);
      }
    }
    const change: Change = {
      revision: cluster.revision,
      time: NOW,
      services,
      removedServices: removed,
      nodes: [],
      removedNodes: [],
      totals: totalsOf(cluster),
    };
    this.send(`event: change\ndata: ${JSON.stringify(change)}\n\n`);
  }

  /** Asks the pages to take a new snapshot. */
  reload(): void {
    this.send("event: reload\ndata: {}\n\n");
  }

  private send(text: string): void {
    for (const stream of this.streams) {
      stream.write(text);
    }
  }

  private async respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (this.isDown) {
      response.destroy();
      return;
    }
    const url = new URL(request.url ?? "/", "http://localhost");
    if (!url.pathname.startsWith("/api/")) {
      await this.asset(url.pathname, response);
      return;
    }
    const path = url.pathname.slice("/api/".length);
    const isSignedIn = this.token === null || (request.headers.cookie ?? "").includes(`session=${this.token}`);
    if (path === "session" && request.method !== "GET") {
      await this.session(request, response);
    } else if (!isSignedIn) {
      json(response, 401, { message: "Sign in with a token" });
    } else {
      this.api(path, url, response);
    }
  }

  private async asset(path: string, response: ServerResponse): Promise<void> {
    const name = path === "/" ? "index.html" : path.slice(1);
    if (!/^(index\.html|chart\.js|chart\.css|favicon\.svg)$/.test(name)) {
      response.writeHead(404).end();
      return;
    }
    const body = await readFile(join(this.assets, name));
    response.writeHead(200, {
      "Content-Type": TYPES[name.split(".").at(-1) ?? ""] ?? "",
      "Content-Security-Policy": CONTENT_SECURITY_POLICY,
      "X-Content-Type-Options": "nosniff",
    });
    response.end(body);
  }

  private async session(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.method === "DELETE") {
      response.writeHead(204, { "Set-Cookie": "session=; Max-Age=0; HttpOnly; SameSite=Strict" }).end();
      return;
    }
    const chunks: Buffer[] = [];
    for await (const chunk of request) {
      chunks.push(chunk as Buffer);
    }
    const { token } = JSON.parse(Buffer.concat(chunks).toString()) as { token: string };
    if (token === this.token) {
      response.writeHead(204, { "Set-Cookie": `session=${token}; HttpOnly; SameSite=Strict` }).end();
    } else {
      json(response, 401, { message: "The API server does not accept the token" });
    }
  }

  private api(path: string, url: URL, response: ServerResponse): void {
    const { cluster } = this;
    const time = url.searchParams.get("time");
    if (path === "session") {
      json(response, 200, {
        user: this.token === null ? "admin" : "system:serviceaccount:monitoring:chart",
        authentication: this.token === null ? "local" : "token",
      });
    } else if (path === "snapshot") {
      json(response, 200, time === null ? snapshotOf(cluster) : pastSnapshot(cluster, time));
    } else if (path === "history") {
      json(response, 200, historyOf(cluster));
    } else if (path === "findings") {
      json(response, 200, { findings: documentedOnce(cluster.findings.slice(0, 2000)) });
    } else if (path === "events") {
      this.followed.push(Number(url.searchParams.get("revision")));
      response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
      response.write(": open\n\n");
      this.streams.add(response);
      response.on("close", () => this.streams.delete(response));
    } else if (path === "trace") {
      this.trace(url, response);
    } else {
      this.service(path, response);
    }
  }

  private trace(url: URL, response: ServerResponse): void {
    try {
      json(response, 200, traceOf(this.cluster, url.searchParams.get("url") ?? "", url.searchParams.get("from") ?? ""));
    } catch {
      json(response, 400, { message: `${url.searchParams.get("url")} is not a destination: expected tcp://HOST:PORT` });
    }
  }

  private service(path: string, response: ServerResponse): void {
    const [, namespace, name] = path.split("/").map(decodeURIComponent);
    const row = this.cluster.services.find((entry) => entry.namespace === namespace && entry.name === name);
    if (row === undefined) {
      json(response, 404, { message: `Service ${namespace}/${name} does not exist` });
    } else {
      const detail = detailOf(this.cluster, row);
      json(response, 200, { ...detail, findings: documentedOnce(detail.findings) });
    }
  }
}

function json(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "Content-Type": "application/json", "Cache-Control": "no-store" }).end(JSON.stringify(body));
}

/** Leaves the documentation out of all but the first finding of each code. */
function documentedOnce(findings: Finding[]): Finding[] {
  const seen = new Set<string>();
  return findings.map((finding) => {
    const isFirst = !seen.has(finding.code);
    seen.add(finding.code);
    return isFirst ? finding : { ...finding, documentation: "" };
  });
}
