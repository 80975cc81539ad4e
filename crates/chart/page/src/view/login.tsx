// Form for a token. The token is sent once and kept nowhere in the page.

import { useRef, useState } from "preact/hooks";
import type { Controller } from "../net/controller.ts";

export function Login({ controller, message }: { controller: Controller; message: string }) {
  const input = useRef<HTMLInputElement>(null);
  const [state, setState] = useState({ isRunning: false, message });
  const submit = async (event: Event) => {
    event.preventDefault();
    const field = input.current;
    if (field === null || field.value.trim() === "") {
      return;
    }
    const token = field.value.trim();
    field.value = "";
    setState({ isRunning: true, message: "" });
    const failure = await controller.signIn(token);
    setState({ isRunning: false, message: failure });
    input.current?.focus();
  };
  return (
    <main class="login">
      <form class="login-card" onSubmit={(event) => void submit(event)}>
        <Logo />
        <h1>Portolan chart</h1>
        <p>
          Sign in with a token of the Kubernetes API. The chart shows the objects that the token may read. On your own host, open
          the address that <code>portolan chart</code> prints.
        </p>
        <label class="field wide">
          <span>Token</span>
          <input
            ref={input}
            type="password"
            name="token"
            autocomplete="off"
            spellcheck={false}
            required
            aria-describedby="login-message"
          />
        </label>
        <p id="login-message" class={state.message === "" ? "visually-hidden" : "alert"} role="alert">
          {state.message}
        </p>
        <button type="submit" class="button primary" disabled={state.isRunning}>
          {state.isRunning ? "Signing in…" : "Sign in"}
        </button>
        <p class="hint">
          For a token with read access: <code>kubectl create token NAME --duration=1h</code>
        </p>
      </form>
    </main>
  );
}

export function Logo() {
  return (
    <svg class="logo" viewBox="0 0 32 32" width="32" height="32" aria-hidden="true">
      <circle cx="16" cy="16" r="14.5" class="logo-ring" />
      <path class="logo-minor" d="M16 16 7 7l7 4.6ZM16 16l9-9-4.6 7ZM16 16l9 9-7-4.6ZM16 16l-9 9 4.6-7Z" />
      <path class="logo-major" d="M16 2.5 18.6 13.4 29.5 16 18.6 18.6 16 29.5 13.4 18.6 2.5 16 13.4 13.4Z" />
      <path class="logo-north" d="M16 2.5 18.6 13.4 16 16Z" />
    </svg>
  );
}
