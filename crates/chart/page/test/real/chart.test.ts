// The page with the real server. `crates/portolan/tests/chart_page.rs` starts it, and creates a Service each second.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Browser } from "playwright-core";
import { accessibilityViolations, launch, type Opened, open, waitForLive } from "../browser/open.ts";

/** URL with a secret that works once. */
const url = process.env.PORTOLAN_CHART_URL ?? "";

let browser: Browser;
let opened: Opened;
before(async () => {
  assert.match(url, /^http:\/\/127\.0\.0\.1:\d+\/#login=./, "expected the URL of the chart in PORTOLAN_CHART_URL");
  browser = await launch();
  opened = await open(browser, url);
});
after(() => browser.close());

const text = async (selector: string) => (await opened.page.locator(selector).first().textContent()) ?? "";

test("signs in with the secret and removes it from the address", async () => {
  await waitForLive(opened.page);
  assert.equal(new URL(opened.page.url()).hash, "");
});

test("shows the Services with their health", async () => {
  const { page } = opened;
  await page.locator('.row[data-id="shop"]').click();
  await page.locator('.row[data-id="shop/web"]').waitFor();
  assert.match(await text('.row[data-id="shop/web"]'), /OK.*web.*2\/2/);
  assert.match(await text('.row[data-id="shop/checkout"]'), /Error.*checkout/);
});

test("shows frontends and endpoints of a Service", async () => {
  const { page } = opened;
  await page.locator('.row[data-id="shop/web"]').click();
  await page.getByText("10.244.1.2").first().waitFor();
  assert.match(await text(".detail-scroll"), /cluster IP10\.96\.0\.80:80TCP http/);
  assert.match(await text(".detail-scroll"), /node-aeast/);
  assert.equal(await page.locator(".canvas-upper").getAttribute("data-scene"), "service:shop/web");
});

test("shows a finding with its remedy and explanation", async () => {
  const { page } = opened;
  await page.locator('.row[data-id="shop/checkout"]').click();
  await page.locator('.finding[data-id^="PTL-0002"]').waitFor();
  await page.getByText("Explanation").first().click();
  await page.getByText("Why it matters").first().waitFor();
  assert.notEqual(await text(".remedy code"), "");
});

test("traces a connection", async () => {
  const { page } = opened;
  await page.keyboard.press("t");
  await page.locator("input[name=url]").fill("tcp://10.96.0.80:80");
  await page.locator("input[name=from]").fill("192.0.2.9");
  await page.keyboard.press("Enter");
  await page.locator('[data-trace="done"]').waitFor();
  assert.match(await text(".verdict"), /reaches/);
  assert.equal(await page.locator(".canvas-upper").getAttribute("data-scene"), "trace:shop/web");
  await page.locator("input[name=url]").fill("nonsense");
  await page.keyboard.press("Enter");
  await page.locator(".alert").waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("Escape");
});

test("follows Services that are created meanwhile", async () => {
  const { page } = opened;
  const count = async () => Number((await text('.row[data-id="late"] .row-note')) || "0");
  const before = await count();
  await page.waitForFunction(
    (known) => Number(document.querySelector('.row[data-id="late"] .row-note')?.textContent ?? "0") > known + 1,
    before,
  );
});

test("has no accessibility violations", async () => {
  for (const colorScheme of ["light", "dark"] as const) {
    await opened.page.emulateMedia({ colorScheme });
    assert.deepEqual(await accessibilityViolations(opened.page), []);
  }
});

test("asks for a sign-in without the secret, and when the secret is used again", async () => {
  for (const address of [url.split("#")[0] ?? "", url]) {
    const other = await open(browser, address);
    await other.page.locator(".login").waitFor();
    assert.equal(new URL(other.page.url()).hash, "");
    assert.deepEqual(other.problems, []);
    await other.close();
  }
});

test("violates no policy and requests nothing else", () => {
  assert.deepEqual(opened.problems, []);
});
