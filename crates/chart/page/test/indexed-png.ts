// Rewrites a screenshot as a PNG with a palette, which is a third of the size.

import { deflateSync, inflateSync } from "node:zlib";

const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
const COLOURS_MAX = 256;
/** Colours that differ only in the lower bits become one before the most frequent are chosen. */
const KEPT_BITS = 0xf8;

interface Picture {
  width: number;
  height: number;
  /** Three octets a pixel. */
  pixels: Buffer;
}

export function indexedPng(png: Buffer): Buffer {
  const { width, height, pixels } = decode(png);
  const palette = mostFrequent(pixels);
  const nearest = new Map<number, number>();
  const rows = Buffer.alloc(height * (width + 1));
  for (let y = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1) {
      const colour = pixels.readUIntBE((y * width + x) * 3, 3);
      let index = nearest.get(colour);
      if (index === undefined) {
        index = nearestIndex(palette, colour);
        nearest.set(colour, index);
      }
      rows[y * (width + 1) + 1 + x] = index;
    }
  }
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 3, 0, 0, 0], 8);
  const colours = Buffer.alloc(palette.length * 3);
  palette.forEach((colour, index) => {
    colours.writeUIntBE(colour, index * 3, 3);
  });
  const parts = [
    chunk("IHDR", header),
    chunk("PLTE", colours),
    chunk("IDAT", deflateSync(rows, { level: 9 })),
    chunk("IEND", Buffer.alloc(0)),
  ];
  return Buffer.concat([SIGNATURE, ...parts]);
}

function mostFrequent(pixels: Buffer): number[] {
  const exact = new Map<number, number>();
  for (let at = 0; at < pixels.length; at += 3) {
    const colour = pixels.readUIntBE(at, 3);
    exact.set(colour, (exact.get(colour) ?? 0) + 1);
  }
  const merged = new Map<number, { colour: number; count: number; most: number }>();
  for (const [colour, count] of exact) {
    const key = colour & ((KEPT_BITS << 16) | (KEPT_BITS << 8) | KEPT_BITS);
    const entry = merged.get(key) ?? { colour, count: 0, most: 0 };
    entry.count += count;
    if (count > entry.most) {
      entry.most = count;
      entry.colour = colour;
    }
    merged.set(key, entry);
  }
  const sorted = [...merged.values()].sort((left, right) => right.count - left.count || left.colour - right.colour);
  return sorted.slice(0, COLOURS_MAX).map((entry) => entry.colour);
}

function nearestIndex(palette: number[], colour: number): number {
  let best = 0;
  let bestDistance = Number.POSITIVE_INFINITY;
  palette.forEach((entry, index) => {
    const distance = [16, 8, 0].reduce((sum, shift) => sum + (((entry >> shift) & 255) - ((colour >> shift) & 255)) ** 2, 0);
    if (distance < bestDistance) {
      bestDistance = distance;
      best = index;
    }
  });
  return best;
}

/** Decodes a PNG as Chromium writes it: 8 bits, RGB or RGBA, not interlaced. */
function decode(png: Buffer): Picture {
  let at = SIGNATURE.length;
  let [width, height, channels] = [0, 0, 3];
  const data: Buffer[] = [];
  while (at < png.length) {
    const length = png.readUInt32BE(at);
    const type = png.toString("latin1", at + 4, at + 8);
    const body = png.subarray(at + 8, at + 8 + length);
    if (type === "IHDR") {
      [width, height] = [body.readUInt32BE(0), body.readUInt32BE(4)];
      channels = body[9] === 6 ? 4 : 3;
    } else if (type === "IDAT") {
      data.push(body);
    }
    at += 12 + length;
  }
  const raw = inflateSync(Buffer.concat(data));
  const stride = width * channels;
  const lines = Buffer.alloc(height * stride);
  for (let y = 0; y < height; y += 1) {
    unfilter(raw, lines, y, stride, channels);
  }
  const pixels = Buffer.alloc(width * height * 3);
  for (let pixel = 0; pixel < width * height; pixel += 1) {
    lines.copy(pixels, pixel * 3, pixel * channels, pixel * channels + 3);
  }
  return { width, height, pixels };
}

function unfilter(raw: Buffer, lines: Buffer, y: number, stride: number, channels: number): void {
  const filter = raw[y * (stride + 1)] ?? 0;
  for (let x = 0; x < stride; x += 1) {
    const value = raw[y * (stride + 1) + 1 + x] ?? 0;
    const left = x >= channels ? (lines[y * stride + x - channels] ?? 0) : 0;
    const above = y > 0 ? (lines[(y - 1) * stride + x] ?? 0) : 0;
    const corner = x >= channels && y > 0 ? (lines[(y - 1) * stride + x - channels] ?? 0) : 0;
    const predicted = [0, left, above, (left + above) >> 1, paeth(left, above, corner)][filter] ?? 0;
    lines[y * stride + x] = (value + predicted) & 255;
  }
}

function paeth(left: number, above: number, corner: number): number {
  const estimate = left + above - corner;
  const [toLeft, toAbove, toCorner] = [left, above, corner].map((value) => Math.abs(estimate - value)) as [
    number,
    number,
    number,
  ];
  return toLeft <= toAbove && toLeft <= toCorner ? left : toAbove <= toCorner ? above : corner;
}

function chunk(type: string, body: Buffer): Buffer {
  const content = Buffer.concat([Buffer.from(type, "latin1"), body]);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(body.length);
  const checksum = Buffer.alloc(4);
  checksum.writeUInt32BE(crc32(content));
  return Buffer.concat([length, content, checksum]);
}

function crc32(content: Buffer): number {
  let crc = 0xffffffff;
  for (const octet of content) {
    crc ^= octet;
    for (let bit = 0; bit < 8; bit += 1) {
      crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
    }
  }
  return (crc ^ 0xffffffff) >>> 0;
}
