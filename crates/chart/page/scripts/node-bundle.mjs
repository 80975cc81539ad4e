// Bundles TypeScript for Node.js into build/, and returns the paths of the results.

import { mkdir, readdir, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

export const page = join(dirname(fileURLToPath(import.meta.url)), "..");

/** Bundles one file, or all `*.test.ts` and `*.test.tsx` of a folder. */
export async function bundle(path) {
  const isFile = /\.tsx?$/.test(path);
  const names = isFile
    ? [path]
    : (await readdir(join(page, path))).filter((name) => /\.test\.tsx?$/.test(name)).map((name) => join(path, name));
  const outdir = join(page, "build", isFile ? path.replace(/\.tsx?$/, "") : path);
  await rm(outdir, { recursive: true, force: true });
  await mkdir(outdir, { recursive: true });
  await build({
    absWorkingDir: page,
    entryPoints: names,
    outdir,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node20",
    packages: "external",
    jsx: "automatic",
    jsxImportSource: "preact",
    sourcemap: "inline",
    logLevel: "warning",
  });
  return (await readdir(outdir)).map((name) => join(outdir, name));
}
