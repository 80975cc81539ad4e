// The page with the real server and hostile objects. `crates/portolan/tests/chart_page.rs` creates them, and changes Services.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Browser } from "playwright-core";
import { launch, type Opened, open, waitForLive } from "../browser/open.ts";

/** URL with a secret that works once. */
const url = process.env.PORTOLAN_CHART_URL ?? "";
/** Services that change all the time. */
const services = Number(process.env.PORTOLAN_HOSTILE_SERVICES ?? "0");
/** Findings that are opened, at most. */
const FINDINGS_MAX = 12;
/** Changes that the page follows before its memory is read. */
const CHANGES = 20;
/** Memory of the page in bytes without Services, and for each of them: the row, its texts and its place in the lists. */
const HEAP_BYTES = 128 * 2 ** 20;
const HEAP_BYTES_OF_SERVICE = 24 * 2 ** 10;
/** Time for one step in milliseconds. An examination of 10,000 Services takes a while on a busy host. */
const STEP_MILLISECONDS = 240_000;

let browser: Browser;
let opened: Opened;
before(async () => {
  assert.match(url, /^http:\/\/127\.0\.0\.1:\d+\/#login=./, "expected the URL of the chart in PORTOLAN_CHART_URL");
  assert.ok(services > 0, "expected the number of Services in PORTOLAN_HOSTILE_SERVICES");
  browser = await launch();
  opened = await open(browser, url);
  opened.page.setDefaultTimeout(STEP_MILLISECONDS);
  await waitForLive(opened.page);
});
after(() => browser.close());

/** Returns what a hostile text has achieved. */
const injected = () =>
  opened.page.evaluate(() => ({
    variable: "injected" in window,
    elements: [...document.querySelectorAll("img, iframe, object, embed, #root script, [onerror], [onload]")].map(
      (element) => element.outerHTML,
    ),
    links: [...document.querySelectorAll("a")].map((link) => link.href).filter((target) => !target.startsWith("https://")),
    hidden: /[\u202a-\u202e\u2066-\u2069\u200b-\u200f\u0007\u001b\u0085]/.test(document.body.textContent ?? ""),
  }));
const NOTHING = { variable: false, elements: [], links: [], hidden: false };

test("every response permits own scripts only", async () => {
  const { origin } = new URL(url);
  for (const path of ["/", "/chart.js", "/api/snapshot", "/api/findings", "/api/session"]) {
    const response = await opened.page.request.get(`${origin}${path}`);
    const policy = response.headers()["content-security-policy"] ?? "";
    assert.match(policy, /default-src 'none'; script-src 'self';/, path);
    assert.doesNotMatch(policy, /unsafe/, path);
    assert.equal(response.headers()["x-content-type-options"], "nosniff", path);
  }
});

test("findings inject nothing", async () => {
  const { page } = opened;
  await page.locator("#tab-findings").click();
  await page.locator("#finding-tree .row").first().waitFor();
  const count = await page.locator("#finding-tree .row").count();
  for (let index = 0; index < Math.min(count, FINDINGS_MAX); index += 1) {
    await page.locator("#finding-tree").focus();
    await page.keyboard.press(index === 0 ? "Home" : "ArrowDown");
    await page.keyboard.press("Enter");
    await page.locator(".finding .markdown").first().waitFor();
    assert.deepEqual(await injected(), NOTHING);
  }
});

test("Services and nodes show hostile texts as text", async () => {
  const { page } = opened;
  await page.locator("#tab-nodes").click();
  assert.deepEqual(await injected(), NOTHING);
  await page.locator("#tab-services").click();
  await page.locator('.row[data-id="hostile"]').click();
  // Examinations follow the changes, so the findings of a Service may be late.
  const deadline = Date.now() + STEP_MILLISECONDS;
  let isShown = false;
  while (!isShown && Date.now() < deadline) {
    for (const name of ["annotated", "pending", "backed"]) {
      await page.locator(`.row[data-id="hostile/${name}"]`).click();
      await page.waitForFunction(
        (id) => document.querySelector(".canvas-upper")?.getAttribute("data-scene") === `service:${id}`,
        `hostile/${name}`,
      );
      await page.locator(".canvas-upper").hover({ position: { x: 350, y: 200 } });
      assert.deepEqual(await injected(), NOTHING);
      isShown ||= ((await page.locator(".detail-scroll").textContent()) ?? "").includes("onerror=window.injected");
    }
  }
  assert.ok(isShown, "a finding of a Service quotes a hostile text");
});

test("memory stays bounded while all Services change", async () => {
  const { page } = opened;
  const revision = async () => Number(await page.locator(".chart").getAttribute("data-revision"));
  const last = (await revision()) + CHANGES;
  await page.waitForFunction(
    (expected) => Number(document.querySelector(".chart")?.getAttribute("data-revision")) >= expected,
    last,
  );
  const session = await page.context().newCDPSession(page);
  await session.send("HeapProfiler.collectGarbage");
  const { usedSize } = (await session.send("Runtime.getHeapUsage")) as { usedSize: number };
  const most = HEAP_BYTES + services * HEAP_BYTES_OF_SERVICE;
  assert.ok(usedSize < most, `${usedSize} of at most ${most} bytes`);
  assert.deepEqual(await injected(), NOTHING);
});

test("violates no policy and requests nothing else", () => {
  assert.deepEqual(opened.problems, []);
});
