// Opens the page in Chromium and collects what must not happen: errors, violations of the policy, foreign requests.

import { AxeBuilder } from "@axe-core/playwright";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";

const CHROMIUM_PATHS = [process.env.CHROMIUM ?? "", "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const CHROMIUM_FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

export async function launch(): Promise<Browser> {
  const failures: string[] = [];
  for (const executablePath of CHROMIUM_PATHS.filter((path) => path !== "")) {
    try {
      return await chromium.launch({ executablePath, args: CHROMIUM_FLAGS });
    } catch (error) {
      failures.push(String(error));
    }
  }
  throw new Error(
    `expected Chromium in one of ${CHROMIUM_PATHS.join(" ")}, or in the variable CHROMIUM:\n${failures.join("\n")}`,
  );
}

export interface Opened {
  page: Page;
  /** Errors of the page, violations of the policy, dialogs, and requests to other origins. */
  problems: string[];
  close: () => Promise<void>;
}

/** Responses that tests expect to fail are logged by the browser. */
const EXPECTED_ERRORS = /the server responded with a status of|net::ERR_/;

export async function open(browser: Browser, url: string, options: BrowserContextOptions = {}): Promise<Opened> {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, timezoneId: "UTC", ...options });
  const page = await context.newPage();
  const problems: string[] = [];
  page.on("pageerror", (error) => problems.push(`error: ${error.stack}`));
  page.on("dialog", (dialog) => {
    problems.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("console", (message) => {
    if (message.type() === "error" && !EXPECTED_ERRORS.test(message.text())) {
      problems.push(`console: ${message.text()}`);
    }
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(new URL(url).origin) && !request.url().startsWith("data:")) {
      problems.push(`request: ${request.url()}`);
    }
  });
  await page.goto(url);
  return { page, problems, close: () => context.close() };
}

export async function waitForLive(page: Page): Promise<void> {
  await page.locator('.chart[data-connection="live"]').waitFor();
}

/** Returns the violations of WCAG 2.2 A and AA, and of axe's best practices. */
export async function accessibilityViolations(page: Page): Promise<string[]> {
  const { violations } = await new AxeBuilder({ page }).analyze();
  return violations.map(
    (violation) =>
      `${violation.id}: ${violation.help}: ${violation.nodes.map((node) => `${node.html.slice(0, 160)} ${node.failureSummary}`).join("; ")}`,
  );
}
