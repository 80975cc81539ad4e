// Light or dark: as the system prefers, unless the user chooses. Only this choice is stored in the browser.

export type Theme = "system" | "light" | "dark";

const STORAGE_KEY = "portolan-chart-theme";

export function storedTheme(): Theme {
  try {
    const value = localStorage.getItem(STORAGE_KEY);
    return value === "light" || value === "dark" ? value : "system";
  } catch {
    // Without storage, the system decides.
    return "system";
  }
}

export function applyTheme(theme: Theme): void {
  if (theme === "system") {
    delete document.documentElement.dataset.theme;
  } else {
    document.documentElement.dataset.theme = theme;
  }
  try {
    if (theme === "system") {
      localStorage.removeItem(STORAGE_KEY);
    } else {
      localStorage.setItem(STORAGE_KEY, theme);
    }
  } catch (error) {
    console.warn("theme not stored", error);
  }
}
