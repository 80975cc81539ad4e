// Parts that every view receives.

import type { Controller } from "../net/controller.ts";
import type { Cluster, State } from "../state/state.ts";
import type { Store } from "../state/store.ts";

export interface Page {
  state: State;
  /** Present or past cluster, as shown. */
  cluster: Cluster;
  store: Store;
  controller: Controller;
}
