// `node scripts/run.mjs FILE [ARGUMENTS…]`: runs a TypeScript file, or the tests of a folder, with Node.js.

import { spawn } from "node:child_process";
import { bundle, page } from "./node-bundle.mjs";

const [path, ...rest] = process.argv.slice(2);
if (path === undefined) {
  console.error("expected a TypeScript file or a folder with tests");
  process.exit(2);
}
const files = await bundle(path);
const isTest = !/\.tsx?$/.test(path);
const child = spawn(
  process.execPath,
  [
    ...(isTest ? ["--test", "--test-concurrency=2"] : []),
    ...rest.filter((entry) => isTest && entry.startsWith("--")),
    ...files,
    ...(isTest ? [] : rest),
  ],
  {
    cwd: page,
    stdio: "inherit",
    env: { ...process.env, PORTOLAN_PAGE: page },
  },
);
child.on("exit", (code) => process.exit(code ?? 1));
