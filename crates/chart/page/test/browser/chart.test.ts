import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { largeCluster, type MockCluster, shopCluster } from "../mock/cluster.ts";
import { HOSTILE_TEXTS, hostileCluster } from "../mock/hostile.ts";
import { MockServer } from "../mock/server.ts";
import { accessibilityViolations, launch, type Opened, open, waitForLive } from "./open.ts";

const ASSETS = join(process.cwd(), "../assets");
const TOKEN = "a-secret-token";
const FINDING = "PTL-0002|Service|shop|checkout|spec.selector";

let browser: Browser;
before(async () => {
  browser = await launch();
});
after(() => browser.close());

interface Chart extends Opened {
  server: MockServer;
}

/** Runs a test on a page, and checks that nothing forbidden happened. */
async function withChart(
  options: { cluster?: MockCluster; token?: string; hash?: string; browser?: BrowserContextOptions },
  run: (chart: Chart) => Promise<void>,
): Promise<void> {
  const server = new MockServer(options.cluster ?? shopCluster(), ASSETS, options.token ?? null);
  const url = await server.start();
  const opened = await open(browser, `${url}${options.hash ?? ""}`, options.browser);
  try {
    if (options.token === undefined) {
      await waitForLive(opened.page);
    }
    await run({ ...opened, server });
    assert.deepEqual(opened.problems, []);
  } finally {
    await opened.close();
    await server.stop();
  }
}

const row = (page: Page, id: string) => page.locator(`.row[data-id="${id}"]`);
/** Waits until the map shows a scene; the page draws after the event of a key or a click. */
const waitForScene = (page: Page, scene: string) =>
  page.locator(`.canvas-upper[data-scene="${scene}"]`).waitFor({ state: "attached" });
const waitForHeading = (page: Page, text: string) => page.locator("h2", { hasText: text }).waitFor();
const waitForTheme = (page: Page, theme: string) =>
  page.waitForFunction((name) => document.documentElement.dataset.theme === name, theme);

const STATES: [name: string, hash: string, prepare?: (page: Page) => Promise<unknown>][] = [
  ["overview", ""],
  ["Service", "#service=shop/web", (page) => page.getByText("203.0.113.7").first().waitFor()],
  ["Service with finding", "#service=shop/catalog", (page) => page.getByText("Explanation").click()],
  ["namespace", "#namespace=shop"],
  ["node", "#node=node-b"],
  ["finding", `#finding=${encodeURIComponent(FINDING)}`, (page) => page.locator("#tab-findings").click()],
  ["nodes", "", (page) => page.locator("#tab-nodes").click()],
  ["trace", "#trace=http://web.shop:80/&from=pod/pay/gateway-1", (page) => page.locator('[data-trace="done"]').waitFor()],
  ["filters", "#q=web&health=ok&type=ClusterIP"],
  ["past", "#time=2026-11-24T13:30:00Z", (page) => page.getByText("Back to live").waitFor()],
  ["help", "", (page) => page.keyboard.press("?")],
];

for (const colorScheme of ["light", "dark"] as const) {
  for (const [name, hash, prepare] of STATES) {
    test(`has no accessibility violations: ${name}, ${colorScheme}`, () =>
      withChart({ hash, browser: { colorScheme } }, async ({ page }) => {
        await prepare?.(page);
        assert.deepEqual(await accessibilityViolations(page), []);
      }));
  }

  test(`has no accessibility violations: sign-in and empty cluster, ${colorScheme}`, async () => {
    await withChart({ token: TOKEN, browser: { colorScheme } }, async ({ page }) => {
      await page.locator(".login").waitFor();
      assert.deepEqual(await accessibilityViolations(page), []);
    });
    await withChart(
      { cluster: { ...shopCluster(), services: [], nodes: [], findings: [] }, browser: { colorScheme } },
      async ({ page }) => {
        await page.getByText("No Services yet").waitFor();
        assert.deepEqual(await accessibilityViolations(page), []);
      },
    );
  });
}

test("reaches search, list, Service, namespace and trace with keys", () =>
  withChart({}, async ({ page }) => {
    await page.keyboard.press("/");
    await page.keyboard.type("cart");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Home");
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("Enter");
    await page.locator('[data-service="shop/cart"]').waitFor();
    await waitForScene(page, "service:shop/cart");
    assert.equal(new URL(page.url()).hash, "#service=shop/cart&q=cart");
    await page.keyboard.press("Escape");
    await waitForScene(page, "cluster");
    await waitForHeading(page, "shop");
    await page.keyboard.press("Escape");
    await waitForHeading(page, "production");
    await page.keyboard.press("t");
    // The panel moves the focus after it is drawn.
    await page.locator('[name="url"]:focus').waitFor();
    await page.keyboard.type("http://web.shop:80/");
    await page.keyboard.press("Tab");
    await page.keyboard.type("pod/pay/gateway-1");
    await page.keyboard.press("Enter");
    await page.locator('[data-trace="done"]').waitFor();
    await waitForScene(page, "trace:shop/web");
  }));

test("names each Service and node in the lists, in the order of the keys", () =>
  withChart({}, async ({ page, server }) => {
    const walk = async (tree: string, steps: number) => {
      await page.locator(tree).focus();
      await page.keyboard.press("Home");
      const seen = new Set<string>();
      for (let step = 0; step < steps; step += 1) {
        const active = await page.evaluate(() => {
          const id = document.activeElement?.getAttribute("aria-activedescendant") ?? "";
          const element = document.getElementById(id);
          return { id: element?.dataset.id ?? "", isClosed: element?.ariaExpanded === "false" };
        });
        seen.add(active.id);
        await page.keyboard.press(active.isClosed ? "ArrowRight" : "ArrowDown");
      }
      return seen;
    };
    const services = await walk("#service-tree", 80);
    for (const service of server.cluster.services) {
      assert.ok(services.has(`${service.namespace}/${service.name}`), service.name);
    }
    await page.locator("#tab-nodes").click();
    const nodes = await walk("#node-tree", 24);
    for (const node of server.cluster.nodes) {
      assert.ok(nodes.has(node.name), node.name);
    }
  }));

test("moves the focus by Tab through all parts and shows it", () =>
  withChart({}, async ({ page }) => {
    const seen = new Set<string>();
    for (let step = 0; step < 45; step += 1) {
      await page.keyboard.press("Tab");
      const active = await page.evaluate(() => {
        const element = document.activeElement;
        const style = element === null ? null : getComputedStyle(element);
        return { name: element?.id || element?.className || "", outline: style?.outlineStyle ?? "none" };
      });
      if (active.name !== "") {
        assert.notEqual(active.outline, "none", active.name);
        seen.add(active.name);
      }
    }
    for (const part of ["skip", "search", "tab-services", "service-tree", "map-area", "detail-scroll"]) {
      assert.ok(seen.has(part), `${part} in ${[...seen].join(", ")}`);
    }
  }));

test("injects nothing from hostile texts", () =>
  withChart({ cluster: hostileCluster() }, async ({ page }) => {
    for (const tab of ["nodes", "findings", "services"]) {
      await page.locator(`#tab-${tab}`).click();
    }
    await page.locator("#service-tree").focus();
    for (const key of ["Home", "ArrowRight", "ArrowDown", "Enter"]) {
      await page.keyboard.press(key);
    }
    await page.locator("#tab-findings").click();
    const count = await page.locator("#finding-tree .row").count();
    assert.ok(count >= 5);
    for (let index = 0; index < HOSTILE_TEXTS.length; index += 1) {
      await page.locator("#finding-tree").focus();
      await page.keyboard.press(index === 0 ? "Home" : "ArrowDown");
      await page.keyboard.press("Enter");
      await page.locator(".finding .markdown").first().waitFor();
    }
    await page.locator("#tab-services").click();
    await page.locator(".canvas-upper").hover({ position: { x: 350, y: 200 } });
    const found = await page.evaluate(() => ({
      injected: "injected" in window,
      elements: [...document.querySelectorAll("img, iframe, object, embed, #root script, [onerror], [onload]")].map(
        (element) => element.outerHTML,
      ),
      links: [...document.querySelectorAll("a")].map((link) => link.href).filter((target) => !target.startsWith("https://")),
      hidden: /[\u202a-\u202e\u2066-\u2069\u200b-\u200f\u0007\u001b\u0085]/.test(document.body.textContent ?? ""),
      isWider: document.documentElement.scrollWidth > innerWidth,
    }));
    assert.deepEqual(found, { injected: false, elements: [], links: [], hidden: false, isWider: false });
  }));

test("shows hidden characters as escapes", () =>
  withChart({ cluster: hostileCluster() }, async ({ page }) => {
    await page.locator("#tab-findings").click();
    await page.locator("#finding-tree").getByText("\\u{202e}exe.fdp\\u{202c}").first().waitFor();
  }));

test("follows changed, new and removed Services", () =>
  withChart({ hash: "#namespace=shop" }, async ({ page, server }) => {
    const web = server.cluster.services.find((entry) => entry.name === "web" && entry.namespace === "shop");
    assert.ok(web);
    server.change(
      [
        { ...web, ready: 2, health: "warning" },
        { ...web, name: "brand-new" },
      ],
      ["shop/cart"],
    );
    await row(page, "shop/brand-new").waitFor();
    assert.match((await row(page, "shop/web").textContent()) ?? "", /2\/6/);
    assert.equal(await row(page, "shop/cart").count(), 0);
    assert.equal(await page.locator(".chart").getAttribute("data-revision"), "1001");
  }));

test("reads the detail of the selected Service again after its change", () =>
  withChart({ hash: "#service=shop/cart" }, async ({ page, server }) => {
    await page.getByText("Clients").first().waitFor();
    const cart = server.cluster.services.find((entry) => entry.name === "cart" && entry.namespace === "shop");
    assert.ok(cart);
    server.change([
      { ...cart, ready: 1, serving: 1, nodes: cart.nodes.map(([node, , total], index) => [node, index === 0 ? 1 : 0, total]) },
    ]);
    await page.getByText("not ready").first().waitFor();
  }));

test("connects again from its revision after the stream ends, and takes a snapshot on reload", () =>
  withChart({}, async ({ page, server }) => {
    assert.deepEqual(server.followed, [1000]);
    const web = server.cluster.services[0];
    assert.ok(web);
    server.change([web]);
    await page.locator('.chart[data-revision="1001"]').waitFor();
    server.isDown = true;
    server.dropStreams();
    await page.locator('.chart[data-connection="lost"]').waitFor();
    await page.getByText("Connection lost").waitFor();
    server.isDown = false;
    await page.getByRole("button", { name: "Connect now" }).click();
    await waitForLive(page);
    assert.deepEqual(server.followed, [1000, 1001]);
    server.cluster.services = server.cluster.services.filter((entry) => entry.namespace !== "pay");
    server.cluster.revision = 1500;
    server.reload();
    await page.locator('.chart[data-revision="1500"]').waitFor();
    assert.equal(await row(page, "pay").count(), 0);
  }));

test("signs in and out with a token, and stores it nowhere", () =>
  withChart({ token: TOKEN }, async ({ page }) => {
    const field = page.locator("input[name=token]");
    await field.fill("wrong");
    await page.keyboard.press("Enter");
    await page.getByText("The API server does not accept the token").waitFor();
    await field.fill(TOKEN);
    await page.keyboard.press("Enter");
    await waitForLive(page);
    const stored = await page.evaluate(() =>
      JSON.stringify([
        { ...localStorage },
        { ...sessionStorage },
        document.cookie,
        location.href,
        document.documentElement.outerHTML,
      ]),
    );
    assert.ok(!stored.includes(TOKEN));
    await page.getByRole("button", { name: /^Sign out/ }).click();
    await page.locator(".login").waitFor();
    assert.equal(await page.locator(".chart").count(), 0);
  }));

test("signs in with the secret of the address and removes it", () =>
  withChart({ token: TOKEN, hash: `#login=${TOKEN}` }, async ({ page }) => {
    await waitForLive(page);
    assert.equal(new URL(page.url()).hash, "");
    assert.equal(await page.evaluate(() => history.length), 2);
  }));

test("signs in with a secret that is entered while the page asks for a token", () =>
  withChart({ token: TOKEN }, async ({ page }) => {
    await page.locator(".login").waitFor();
    await page.evaluate((secret) => location.assign(`#login=${secret}`), TOKEN);
    await waitForLive(page);
    assert.equal(new URL(page.url()).hash, "");
  }));

test("shows errors and selection in the title", () =>
  withChart({ hash: "#service=shop/web" }, async ({ page }) => {
    await page.waitForFunction(() => document.title === "(2) shop/web – Portolan chart");
  }));

test("asks for a token after a wrong secret in the address", () =>
  withChart({ token: TOKEN, hash: "#login=wrong" }, async ({ page }) => {
    await page.getByText("The API server does not accept the token").waitFor();
    assert.equal(new URL(page.url()).hash, "");
  }));

test("shows the past of the slider and returns to live", () =>
  withChart({}, async ({ page }) => {
    const slider = page.getByRole("slider", { name: "Time in the last hour" });
    await page.waitForFunction(() => Number(document.querySelector<HTMLInputElement>(".timeline input")?.max) > 0);
    await slider.focus();
    for (let step = 0; step < 60; step += 1) {
      await page.keyboard.press("ArrowLeft");
    }
    await page.locator(".timeline.is-past").waitFor();
    assert.match((await slider.getAttribute("aria-valuetext")) ?? "", /^13:30:00, 5 errors/);
    await page.waitForFunction(() => document.querySelector(".totals .total-error b")?.textContent === "8");
    assert.match(new URL(page.url()).hash, /time=2026-11-24T13:30:00/);
    await page.getByRole("button", { name: "Back to live" }).click();
    await page.waitForFunction(() => document.querySelector(".totals .total-error b")?.textContent === "2");
  }));

test("opens a Service by a click on the map, and goes back in the history", () =>
  withChart({ hash: "#namespace=shop" }, async ({ page }) => {
    const upper = page.locator(".canvas-upper");
    await page.waitForFunction(() => document.querySelector<HTMLElement>(".canvas-upper")?.dataset.scene === "cluster");
    const box = await upper.boundingBox();
    assert.ok(box);
    await upper.click({ position: { x: box.width * 0.35, y: box.height * 0.3 } });
    await page.waitForFunction(() =>
      document.querySelector<HTMLElement>(".canvas-upper")?.dataset.scene?.startsWith("service:shop/"),
    );
    await page.goBack();
    await page.waitForFunction(() => location.hash === "#namespace=shop" && document.querySelector("h2")?.textContent === "shop");
  }));

test("opens a finding from the map's panel and copies its remedy", () =>
  withChart({ browser: { permissions: ["clipboard-read", "clipboard-write"] } }, async ({ page, server }) => {
    await page.locator(".cause").first().click();
    await page.getByRole("button", { name: "Copy remedy of PTL-0002" }).click();
    await page.getByText("Copied").waitFor();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), server.cluster.findings[0]?.remedy);
    await page.getByText("Why it matters").waitFor();
  }));

test("keeps the document small with 10,000 Services", () =>
  withChart({ cluster: largeCluster(10_000) }, async ({ page }) => {
    await page.locator("#service-tree").focus();
    await page.keyboard.press("End");
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("End");
    assert.ok((await page.locator(".row").count()) < 80);
    assert.ok((await page.locator("*").count()) < 1500);
    const active = await page.evaluate(() =>
      document.getElementById(document.activeElement?.getAttribute("aria-activedescendant") ?? "")?.getAttribute("aria-level"),
    );
    assert.equal(active, "2");
  }));

test("moves no lines for users who prefer reduced motion", () =>
  withChart({ hash: "#service=shop/web", browser: { reducedMotion: "reduce" } }, async ({ page }) => {
    await page.getByText("203.0.113.7").first().waitFor();
    const picture = () =>
      page.evaluate(async () => {
        for (let frame = 0; frame < 5; frame += 1) {
          await new Promise(requestAnimationFrame);
        }
        return document.querySelectorAll("canvas")[1]?.toDataURL() ?? "";
      });
    const first = await picture();
    assert.ok(first.length > 1000);
    assert.equal(await picture(), first);
  }));

test("moves lines of traffic otherwise", () =>
  withChart({ hash: "#service=shop/web" }, async ({ page }) => {
    await page.getByText("203.0.113.7").first().waitFor();
    const first = await page.evaluate(() => document.querySelectorAll("canvas")[1]?.toDataURL());
    await page.waitForFunction((before) => document.querySelectorAll("canvas")[1]?.toDataURL() !== before, first);
  }));

test("remembers the chosen theme and nothing else", () =>
  withChart({}, async ({ page }) => {
    await page.getByRole("button", { name: "Theme: system" }).click();
    await page.getByRole("button", { name: "Theme: light" }).click();
    await waitForTheme(page, "dark");
    await page.reload();
    await waitForLive(page);
    await waitForTheme(page, "dark");
    assert.deepEqual(await page.evaluate(() => ({ ...localStorage })), { "portolan-chart-theme": "dark" });
  }));

test("fits 1024 pixels", () =>
  withChart({ browser: { viewport: { width: 1024, height: 700 } } }, async ({ page }) => {
    const wider = await page.evaluate(
      () => document.documentElement.scrollWidth > innerWidth || document.body.scrollHeight > innerHeight,
    );
    assert.equal(wider, false);
    assert.deepEqual(await accessibilityViolations(page), []);
  }));
