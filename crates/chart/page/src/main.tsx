// Start of the page.

import { render } from "preact";
import { Controller } from "./net/controller.ts";
import { Store } from "./state/store.ts";
import { App } from "./view/app.tsx";
import { applyTheme, storedTheme } from "./view/theme.ts";

const root = document.getElementById("root");
if (root === null) {
  throw new Error("expected an element with the id root in index.html");
}
applyTheme(storedTheme());
const store = new Store();
const controller = new Controller(store);
render(<App store={store} controller={controller} />, root);
controller.start();
