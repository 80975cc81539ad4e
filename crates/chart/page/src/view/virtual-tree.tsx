// Tree with rows of one height, of which only the visible ones are in the document. Keyboard as in the ARIA practices.

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { TreeRow } from "../state/filter.ts";

/** Rows above and below the visible part. */
const OVERSCAN_ROWS = 8;

export interface VirtualTreeProps<P, C> {
  id: string;
  label: string;
  rows: TreeRow<P, C>[];
  rowHeight: number;
  selected: string;
  empty: ComponentChildren;
  /** True without parents. */
  isFlat?: boolean;
  renderParent: (value: P, isOpen: boolean) => ComponentChildren;
  renderChild: (value: C) => ComponentChildren;
  onChoose: (row: TreeRow<P, C>) => void;
  onToggle: (id: string, isOpen: boolean) => void;
}

export function VirtualTree<P, C>(props: VirtualTreeProps<P, C>) {
  const { rows, rowHeight, selected } = props;
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const [activeId, setActiveId] = useState("");
  const active = Math.max(
    0,
    rows.findIndex((row) => row.id === (activeId === "" ? selected : activeId)),
  );

  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) {
      return;
    }
    const measure = () => setView({ top: element.scrollTop, height: element.clientHeight });
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    element.addEventListener("scroll", measure, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", measure);
    };
  }, []);

  const reveal = (index: number) => {
    const element = box.current;
    if (element === null || index < 0) {
      return;
    }
    const top = index * rowHeight;
    if (top < element.scrollTop) {
      element.scrollTop = top;
    } else if (top + rowHeight > element.scrollTop + element.clientHeight) {
      element.scrollTop = top + rowHeight - element.clientHeight;
    }
  };

  // A choice on the map moves the list to the chosen row.
  useEffect(() => {
    if (selected !== "") {
      setActiveId(selected);
      reveal(rows.findIndex((row) => row.id === selected));
    }
  }, [selected]);

  const move = (index: number) => {
    const next = Math.min(Math.max(index, 0), rows.length - 1);
    setActiveId(rows[next]?.id ?? "");
    reveal(next);
  };

  const onKeyDown = (event: KeyboardEvent) => {
    const row = rows[active];
    if (row === undefined || event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const page = Math.max(1, Math.floor(view.height / rowHeight) - 1);
    const moves: Record<string, number> = {
      ArrowDown: active + 1,
      ArrowUp: active - 1,
      Home: 0,
      End: rows.length - 1,
      PageDown: active + page,
      PageUp: active - page,
    };
    const target = moves[event.key];
    if (target !== undefined) {
      move(target);
    } else if (event.key === "Enter" || event.key === " ") {
      props.onChoose(row);
    } else if (event.key === "ArrowRight" && row.kind === "parent") {
      if (row.isOpen) {
        move(active + 1);
      } else {
        props.onToggle(row.id, true);
      }
    } else if (event.key === "ArrowLeft") {
      if (row.kind === "parent") {
        props.onToggle(row.id, false);
      } else {
        move(active - row.position);
      }
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };

  const first = Math.max(0, Math.floor(view.top / rowHeight) - OVERSCAN_ROWS);
  const last = Math.min(rows.length, Math.ceil((view.top + view.height) / rowHeight) + OVERSCAN_ROWS);
  const shown = Array.from({ length: Math.max(0, last - first) }, (_, offset) => first + offset);
  // The active row stays in the document, so that aria-activedescendant names an element.
  if (rows.length > 0 && (active < first || active >= last)) {
    shown.push(active);
  }
  const rowId = (index: number) => `${props.id}-row-${index}`;
  return (
    <div
      ref={box}
      id={props.id}
      class="tree"
      role={rows.length === 0 ? "group" : "tree"}
      aria-label={props.label}
      tabIndex={0}
      aria-activedescendant={rows.length === 0 ? undefined : rowId(active)}
      onKeyDown={onKeyDown}
    >
      {rows.length === 0 && <div class="tree-empty">{props.empty}</div>}
      <div role="presentation" class="tree-space" style={{ height: `${rows.length * rowHeight}px` }}>
        {shown.map((index) => {
          const row = rows[index];
          if (row === undefined) {
            return null;
          }
          return (
            <div
              key={row.id}
              id={rowId(index)}
              role="treeitem"
              class={`row row-${row.kind}${index === active ? " is-active" : ""}${row.id === selected ? " is-selected" : ""}`}
              aria-level={row.kind === "parent" || props.isFlat === true ? 1 : 2}
              aria-setsize={row.size}
              aria-posinset={row.position}
              aria-expanded={row.kind === "parent" ? row.isOpen : undefined}
              aria-selected={row.id === selected}
              data-id={row.id}
              style={{ transform: `translateY(${index * rowHeight}px)`, height: `${rowHeight}px` }}
              onClick={() => {
                setActiveId(row.id);
                props.onChoose(row);
              }}
            >
              {row.kind === "parent" ? props.renderParent(row.value, row.isOpen) : props.renderChild(row.value)}
            </div>
          );
        })}
      </div>
    </div>
  );
}
