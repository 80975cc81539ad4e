// Builds the bundle into a temporary folder and compares it with crates/chart/assets.

import { execFileSync } from "node:child_process";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { page } from "./node-bundle.mjs";

const assets = join(page, "../assets");
const fresh = await mkdtemp(join(tmpdir(), "chart-"));
try {
  execFileSync(process.execPath, [join(page, "scripts/build.mjs"), fresh], { stdio: "inherit" });
  const names = [...new Set([...(await readdir(fresh)), ...(await readdir(assets))])].sort();
  const differing = [];
  for (const name of names) {
    const [left, right] = await Promise.all([fresh, assets].map((folder) => readFile(join(folder, name)).catch(() => null)));
    if (left === null || right === null || !left.equals(right)) {
      differing.push(name);
    }
  }
  if (differing.length > 0) {
    console.error(
      `crates/chart/assets differs from the sources in ${differing.join(", ")}: run npm run build and commit the result`,
    );
    process.exitCode = 1;
  } else {
    console.log(`crates/chart/assets equals the sources: ${names.join(", ")}`);
  }
} finally {
  await rm(fresh, { recursive: true });
}
