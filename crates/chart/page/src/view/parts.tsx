// Small parts that several panels use.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Health, Severity } from "../contract.ts";
import { HEALTH_TITLES } from "../state/filter.ts";
import { type Block, type Inline, parseMarkdown } from "../text/markdown.ts";

/** Health as colour and shape; the text is for screen readers. */
export function HealthMark({ health, title }: { health: Health; title?: string }) {
  return (
    <span class={`mark mark-${health}`}>
      <svg viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">
        {health === "ok" && <circle cx="8" cy="8" r="5" />}
        {health === "idle" && <circle class="hollow" cx="8" cy="8" r="4.5" />}
        {health === "warning" && <path d="M8 1.8 14.6 13.6H1.4Z" />}
        {health === "error" && <path d="M8 1 15 8 8 15 1 8Z" />}
      </svg>
      <span class="visually-hidden">{title ?? HEALTH_TITLES[health]}</span>
    </span>
  );
}

const SEVERITY_HEALTH: Record<Severity, Health> = { error: "error", warning: "warning", info: "idle" };

export function SeverityMark({ severity }: { severity: Severity }) {
  return <HealthMark health={SEVERITY_HEALTH[severity]} title={severity} />;
}

const COPIED_MILLISECONDS = 1_600;

/** Text in a code block with a button that copies it. */
export function CopyText({ text, label }: { text: string; label: string }) {
  const code = useRef<HTMLElement>(null);
  const [state, setState] = useState<"" | "Copied" | "Press Ctrl+C">("");
  useEffect(() => {
    if (state === "") {
      return;
    }
    const timer = setTimeout(() => setState(""), COPIED_MILLISECONDS);
    return () => clearTimeout(timer);
  }, [state]);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setState("Copied");
    } catch {
      // Without permission or TLS the browser has no clipboard; the selected text can be copied by hand.
      if (code.current !== null) {
        getSelection()?.selectAllChildren(code.current);
      }
      setState("Press Ctrl+C");
    }
  };
  return (
    <div class="copy">
      <code ref={code}>{text}</code>
      <button type="button" class="button small" onClick={() => void copy()} aria-label={`Copy ${label}`}>
        {state === "" ? "Copy" : state}
      </button>
    </div>
  );
}

function InlineText({ content }: { content: Inline[] }) {
  return (
    <>
      {content.map((part) => {
        switch (part.kind) {
          case "code":
            return <code>{part.text}</code>;
          case "strong":
            return <strong>{part.text}</strong>;
          case "emphasis":
            return <em>{part.text}</em>;
          case "link":
            return (
              <a href={part.target} target="_blank" rel="noopener noreferrer">
                {part.text}
              </a>
            );
          default:
            return part.text;
        }
      })}
    </>
  );
}

function MarkdownBlock({ block }: { block: Block }) {
  switch (block.kind) {
    case "heading":
      return (
        <p class="markdown-heading">
          <strong>
            <InlineText content={block.content} />
          </strong>
        </p>
      );
    case "code":
      return (
        <pre tabIndex={0}>
          <code>{block.text}</code>
        </pre>
      );
    case "list": {
      const items = block.items.map((item) => (
        <li>
          <InlineText content={item} />
        </li>
      ));
      return block.isOrdered ? <ol>{items}</ol> : <ul>{items}</ul>;
    }
    case "table":
      return (
        <table>
          <thead>
            <tr>
              {block.header.map((cell) => (
                <th scope="col">
                  <InlineText content={cell} />
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {block.rows.map((row) => (
              <tr>
                {row.map((cell) => (
                  <td>
                    <InlineText content={cell} />
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      );
    default:
      return (
        <p>
          <InlineText content={block.content} />
        </p>
      );
  }
}

export function Markdown({ text }: { text: string }) {
  return (
    <div class="markdown">
      {parseMarkdown(text).map((block) => (
        <MarkdownBlock block={block} />
      ))}
    </div>
  );
}

export function Section({ title, note, children }: { title: string; note?: string; children: ComponentChildren }) {
  return (
    <section class="section">
      <h3>
        {title}
        {note !== undefined && <span class="note">{note}</span>}
      </h3>
      {children}
    </section>
  );
}

export function Pairs({ pairs }: { pairs: [string, ComponentChildren][] }) {
  return (
    <dl class="pairs">
      {pairs.map(([term, value]) => (
        <div>
          <dt>{term}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

const ICONS = {
  search: "M7 12.2a5.2 5.2 0 1 0 0-10.4 5.2 5.2 0 0 0 0 10.4Zm3.8-1.4L14.5 14.5",
  close: "M3.5 3.5l9 9m0-9l-9 9",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  fit: "M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10",
  sun: "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6Zm0-3.5v1m0 11v1m6.5-6.5h-1m-11 0h-1m11.1-4.6-.7.7m-7.8 7.8-.7.7m9.2 0-.7-.7m-7.8-7.8-.7-.7",
  moon: "M13.5 9.6A6 6 0 0 1 6.4 2.5a6 6 0 1 0 7.1 7.1Z",
  system: "M2 3h12v8H2Zm4 10.5h4M8 11v2.5",
  help: "M5.8 6a2.2 2.2 0 1 1 3.2 2c-.7.4-1 .8-1 1.6m0 2.2v.2M8 14.5a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13Z",
  chevron: "M6 3.5 10.5 8 6 12.5",
  trace:
    "M3 13a1.6 1.6 0 1 0 0-3.2A1.6 1.6 0 0 0 3 13Zm10-6.8A1.6 1.6 0 1 0 13 3a1.6 1.6 0 0 0 0 3.2ZM4.5 11.4c4.5 0 2.5-6.8 7-6.8",
  exit: "M6.5 2.5h-4v11h4M10 5l3 3-3 3m3-3H6",
} as const;

export function Icon({ name }: { name: keyof typeof ICONS }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
      <path d={ICONS[name]} />
    </svg>
  );
}

export function IconButton(props: {
  icon: keyof typeof ICONS;
  label: string;
  onClick: () => void;
  isPressed?: boolean;
  keys?: string;
}) {
  const title = props.keys === undefined ? props.label : `${props.label} (${props.keys})`;
  return (
    <button
      type="button"
      class="icon-button"
      aria-label={props.label}
      title={title}
      aria-pressed={props.isPressed}
      onClick={props.onClick}
    >
      <Icon name={props.icon} />
    </button>
  );
}
