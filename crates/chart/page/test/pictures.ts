// `npm run pictures`: writes the pictures of docs/images from generated clusters.

import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { launch, open, waitForLive } from "./browser/open.ts";
import { indexedPng } from "./indexed-png.ts";
import { largeCluster, type MockCluster, shopCluster } from "./mock/cluster.ts";
import { MockServer } from "./mock/server.ts";

interface Picture {
  name: string;
  cluster: MockCluster;
  hash?: string;
  colorScheme?: "light" | "dark";
  token?: string;
  prepare?: (page: Page) => Promise<unknown>;
}

const FINDING = encodeURIComponent("PTL-0002|Service|shop|checkout|spec.selector");
const PICTURES: Picture[] = [
  { name: "overview", cluster: shopCluster() },
  { name: "overview-dark", cluster: shopCluster(), colorScheme: "dark" },
  {
    name: "service",
    cluster: shopCluster(),
    hash: "#service=shop/web",
    prepare: (page) => page.getByText("203.0.113.7").first().waitFor(),
  },
  {
    name: "finding",
    cluster: shopCluster(),
    hash: `#finding=${FINDING}`,
    prepare: (page) => page.locator("#tab-findings").click(),
  },
  {
    name: "trace",
    cluster: shopCluster(),
    hash: "#trace=http://web.shop:80/&from=pod/pay/gateway-1",
    prepare: (page) => page.locator('[data-trace="done"]').waitFor(),
  },
  { name: "large", cluster: largeCluster(10_000) },
  {
    name: "past",
    cluster: shopCluster(),
    hash: "#time=2026-11-24T13:30:00Z",
    prepare: (page) => page.getByText("Back to live").waitFor(),
  },
  { name: "sign-in", cluster: shopCluster(), token: "token" },
];

const folder = join(process.cwd(), "../../../docs/images");
await mkdir(folder, { recursive: true });
const browser = await launch();
for (const { name, cluster, hash = "", colorScheme = "light", token, prepare } of PICTURES) {
  const server = new MockServer(cluster, join(process.cwd(), "../assets"), token ?? null);
  // Without motion, two runs draw the same lines.
  const { page, close } = await open(browser, `${await server.start()}${hash}`, { colorScheme, reducedMotion: "reduce" });
  await (token === undefined ? waitForLive(page) : page.locator(".login").waitFor());
  if (token === undefined) {
    await page.locator(".curves").waitFor();
    await page.locator("#tab-findings .count").filter({ hasNotText: /^0$/ }).waitFor();
  }
  await prepare?.(page);
  await page.evaluate(async () => {
    await document.fonts.ready;
    for (let frame = 0; frame < 10; frame += 1) {
      await new Promise(requestAnimationFrame);
    }
  });
  await writeFile(join(folder, `chart-${name}.png`), indexedPng(await page.screenshot()));
  await close();
  await server.stop();
  console.log(`docs/images/chart-${name}.png`);
}
await browser.close();
