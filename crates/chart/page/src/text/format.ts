// Numbers, times and names for people.

import type { Frontend, FrontendKind, ObjectName, ServiceRow } from "../contract.ts";

const UNITS = ["", "k", "M", "G", "T"];

/** `1234` is `1.23k`. */
export function shortNumber(value: number): string {
  let unit = 0;
  let rest = value;
  while (Math.abs(rest) >= 999.5 && unit < UNITS.length - 1) {
    rest /= 1000;
    unit += 1;
  }
  const digits =
    unit === 0 && Number.isInteger(value) ? 0 : Math.abs(rest) < 10 ? (unit === 0 ? 1 : 2) : Math.abs(rest) < 100 ? 1 : 0;
  const text = rest.toFixed(digits);
  return `${text.includes(".") ? text.replace(/\.?0+$/, "") : text}${UNITS[unit]}`;
}

export function groupedNumber(value: number): string {
  return value.toString().replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

export function bytesPerSecond(value: number): string {
  const short = shortNumber(value);
  const unit = /[a-zA-Z]$/.exec(short)?.[0] ?? "";
  return `${short.slice(0, short.length - unit.length)} ${unit}B/s`;
}

/** `1 Service`, `2 Services`. */
export function counted(count: number, singular: string, plural = `${singular}s`): string {
  return `${groupedNumber(count)} ${count === 1 ? singular : plural}`;
}

const twoDigits = (value: number) => value.toString().padStart(2, "0");

/** Time of day in the zone of the browser. */
export function timeOfDay(time: string): string {
  const date = new Date(time);
  return Number.isNaN(date.getTime())
    ? time
    : `${twoDigits(date.getHours())}:${twoDigits(date.getMinutes())}:${twoDigits(date.getSeconds())}`;
}

/** `4 min 10 s ago`. */
export function ago(time: string, now: string): string {
  const seconds = Math.max(0, Math.round((Date.parse(now) - Date.parse(time)) / 1000));
  if (!Number.isFinite(seconds)) {
    return "";
  }
  const minutes = Math.floor(seconds / 60);
  return minutes === 0 ? `${seconds} s ago` : `${minutes} min ${twoDigits(seconds % 60)} s ago`;
}

export function percent(share: number): string {
  const value = share * 100;
  return `${value === 100 || value >= 9.95 ? value.toFixed(0) : value.toFixed(1)} %`;
}

export const FRONTEND_TITLES: Record<FrontendKind, string> = {
  clusterIP: "cluster IP",
  nodePort: "node port",
  externalIP: "external IP",
  loadBalancer: "load balancer",
  externalName: "external name",
};

/** `10.96.0.5:80`; an IPv6 address is in brackets. */
export function frontendAddress(frontend: Frontend): string {
  if (frontend.kind === "nodePort") {
    return `:${frontend.port}`;
  }
  if (frontend.kind === "externalName") {
    return frontend.address;
  }
  return hostAndPort(frontend.address, frontend.port);
}

export function hostAndPort(address: string, port: number | null): string {
  if (port === null) {
    return address;
  }
  return address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`;
}

export function typeTitle(row: ServiceRow): string {
  return row.headless ? `${row.type}, headless` : row.type;
}

export function objectTitle(object: ObjectName): string {
  return object.namespace === "" ? `${object.kind} ${object.name}` : `${object.kind} ${object.namespace}/${object.name}`;
}

/** Ready and expected endpoints: `2/3 ready`. */
export function readiness(row: ServiceRow): string {
  return row.health === "idle" && row.total === 0 ? "no endpoints expected" : `${row.ready}/${row.total} ready`;
}
