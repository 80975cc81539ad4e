// Dialog with the keys and the legend.

import { useEffect, useRef } from "preact/hooks";
import { HealthMark, IconButton } from "./parts.tsx";

const KEYS: [string[], string][] = [
  [["/"], "Search Services"],
  [["t"], "Trace a connection"],
  [["Esc"], "Back: close a panel, then leave the Service or namespace"],
  [["↑", "↓", "Home", "End"], "Move in a list"],
  [["→", "←"], "Open or close a namespace"],
  [["Enter"], "Choose the row"],
  [["+", "−", "0"], "Zoom in, zoom out, show all (map)"],
  [["↑", "↓", "←", "→"], "Move the map, when it has the focus"],
  [["l"], "Back to live"],
  [["?"], "This help"],
];

export function Help({ onClose }: { onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  return (
    <dialog ref={dialog} class="help" aria-labelledby="help-title" onClose={onClose}>
      <header>
        <h2 id="help-title">Keys and marks</h2>
        <IconButton icon="close" label="Close" onClick={() => dialog.current?.close()} />
      </header>
      <dl class="keys">
        {KEYS.map(([keys, text]) => (
          <div>
            <dt>
              {keys.map((key) => (
                <kbd>{key}</kbd>
              ))}
            </dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
      <ul class="legend-list">
        <li>
          <HealthMark health="error" title="" /> error: connections fail
        </li>
        <li>
          <HealthMark health="warning" title="" /> warning: some connections fail, or reach the wrong backend
        </li>
        <li>
          <HealthMark health="ok" title="" /> OK
        </li>
        <li>
          <HealthMark health="idle" title="" /> idle: the Service expects no endpoints
        </li>
      </ul>
      <p class="hint">
        The size of a mark grows with the number of endpoints. Moving dashes are connections; thicker and faster lines have more
        of them. Dotted lines show reach without known traffic.
      </p>
    </dialog>
  );
}
