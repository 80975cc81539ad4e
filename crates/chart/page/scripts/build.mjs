// Builds the bundle into crates/chart/assets, or into the folder of the first argument.

import { copyFile, mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const page = join(dirname(fileURLToPath(import.meta.url)), "..");
const target = process.argv[2] ?? join(page, "../assets");

await mkdir(target, { recursive: true });
await build({
  absWorkingDir: page,
  entryPoints: { chart: "src/main.tsx" },
  outdir: target,
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  charset: "utf8",
  logLevel: "warning",
});
await build({
  absWorkingDir: page,
  entryPoints: { chart: "src/chart.css" },
  outdir: target,
  bundle: true,
  minify: true,
  logLevel: "warning",
});
for (const name of ["index.html", "favicon.svg"]) {
  await copyFile(join(page, "src", name), join(target, name));
}
