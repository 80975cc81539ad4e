// `npm run measure`: times of the page with generated clusters, in Chromium on this host.

import { join } from "node:path";
import { launch, open, waitForLive } from "./browser/open.ts";
import { largeCluster } from "./mock/cluster.ts";
import { MockServer } from "./mock/server.ts";

const ZOOM_STEPS = 40;
const CHANGES = 20;

const browser = await launch();
for (const count of [1000, 10_000]) {
  const server = new MockServer(largeCluster(count), join(process.cwd(), "../assets"));
  const { page, problems, close } = await open(browser, await server.start());
  await waitForLive(page);
  const loaded = await page.evaluate(async () => {
    const canvas = document.querySelector<HTMLElement>(".canvas-upper");
    while (canvas?.dataset.firstFrame === undefined) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    return Number(canvas.dataset.firstFrame);
  });
  await page.locator(".map-area").focus();
  await page.evaluate(() => {
    const times: number[] = [];
    Object.assign(window, { frameTimes: times });
    const record = (time: number): void => {
      times.push(time);
      requestAnimationFrame(record);
    };
    requestAnimationFrame(record);
  });
  const frames: number[] = [];
  for (let step = 0; step < ZOOM_STEPS; step += 1) {
    await page.keyboard.press(step < ZOOM_STEPS / 2 ? "+" : "-");
    await page.evaluate(() => new Promise(requestAnimationFrame));
    frames.push(
      await page.evaluate(() => Number(document.querySelector<HTMLElement>(".canvas-upper")?.dataset.frameMilliseconds)),
    );
  }
  frames.sort((left, right) => left - right);
  const times = await page.evaluate(() => (window as unknown as { frameTimes: number[] }).frameTimes);
  const intervals = times.slice(1).map((time, index) => time - (times[index] ?? time));
  intervals.sort((left, right) => left - right);
  const delays: number[] = [];
  const [row] = server.cluster.services;
  for (let change = 0; change < CHANGES && row !== undefined; change += 1) {
    const revision = server.cluster.revision + 1;
    const shown = page.evaluate(async (expected) => {
      while (document.querySelector<HTMLElement>(".chart")?.dataset.revision !== expected) {
        await new Promise(requestAnimationFrame);
      }
    }, String(revision));
    const start = performance.now();
    server.change(server.cluster.services.slice(0, 500).map((entry) => ({ ...entry, ready: entry.ready + (change % 2) })));
    await shown;
    delays.push(performance.now() - start);
  }
  delays.sort((left, right) => left - right);
  const at = (values: number[], share: number) =>
    (values[Math.min(values.length - 1, Math.floor(values.length * share))] ?? 0).toFixed(0);
  console.log(
    `${count} Services: first map ${loaded.toFixed(0)} ms after the start of navigation; frame p50 ${at(frames, 0.5)} ms, p95 ${at(frames, 0.95)} ms; interval of frames p50 ${at(intervals, 0.5)} ms, p95 ${at(intervals, 0.95)} ms; change of 500 Services shown p50 ${at(delays, 0.5)} ms, p95 ${at(delays, 0.95)} ms; problems ${problems.length}`,
  );
  await close();
  await server.stop();
}
await browser.close();
