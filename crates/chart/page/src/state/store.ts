// Holds the state and informs its subscribers.

import { type Action, reduce } from "./reduce.ts";
import { STATE_INITIAL, type State } from "./state.ts";

export type Listener = (state: State, before: State) => void;

export class Store {
  private current: State = STATE_INITIAL;
  private readonly listeners = new Set<Listener>();

  get state(): State {
    return this.current;
  }

  dispatch(action: Action): void {
    const before = this.current;
    this.current = reduce(before, action);
    if (this.current !== before) {
      for (const listener of this.listeners) {
        listener(this.current, before);
      }
    }
  }

  subscribe(listener: Listener): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}
