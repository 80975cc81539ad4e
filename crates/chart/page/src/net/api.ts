// Requests to the server of the chart. Paths are relative, so the page works below a prefix.

import type { Finding, History, ServiceDetail, Session, Snapshot, Trace } from "../contract.ts";
import { parseVisible } from "../text/visible.ts";

/** A response takes longer only if the server does not respond. */
const TIMEOUT_MILLISECONDS = 30_000;

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

async function request(path: string, init: RequestInit = {}, signal?: AbortSignal): Promise<Response> {
  const timeout = AbortSignal.timeout(TIMEOUT_MILLISECONDS);
  const signals = signal === undefined ? timeout : AbortSignal.any([timeout, signal]);
  let response: Response;
  try {
    response = await fetch(`./api/${path}`, { cache: "no-store", credentials: "same-origin", ...init, signal: signals });
  } catch (error) {
    throw new ApiError(0, `The server does not respond: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (!response.ok) {
    throw new ApiError(response.status, await messageOf(response));
  }
  return response;
}

async function messageOf(response: Response): Promise<string> {
  const fallback = `The server responded with status ${response.status}`;
  try {
    const body = parseVisible(await response.text());
    const message = typeof body === "object" && body !== null ? (body as { message?: unknown }).message : undefined;
    return typeof message === "string" && message !== "" ? message : fallback;
  } catch {
    // The body is no JSON, so the status is all there is to report.
    return fallback;
  }
}

/** The server and the page are one build, so the shape is not checked again. */
async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  const response = await request(path, {}, signal);
  return parseVisible(await response.text()) as T;
}

export const api = {
  session: () => get<Session>("session"),
  snapshot: (time: string, signal?: AbortSignal) =>
    get<Snapshot>(time === "" ? "snapshot" : `snapshot?time=${encodeURIComponent(time)}`, signal),
  history: () => get<History>("history"),
  findings: async () => (await get<{ findings: Finding[] }>("findings")).findings,
  service: (key: string, signal?: AbortSignal) =>
    get<ServiceDetail>(`services/${key.split("/").map(encodeURIComponent).join("/")}`, signal),
  trace: (url: string, from: string, signal?: AbortSignal) =>
    get<Trace>(`trace?url=${encodeURIComponent(url)}&from=${encodeURIComponent(from)}`, signal),
  signIn: async (token: string) => {
    await request("session", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ token }),
    });
  },
  signOut: async () => {
    await request("session", { method: "DELETE" });
  },
};
