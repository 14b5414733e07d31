// Dark or light: as the system prefers, until the reader chooses.

const kDark = matchMedia("(prefers-color-scheme: dark)");

export const isDark = () => (document.documentElement.dataset.theme || (kDark.matches ? "dark" : "light")) === "dark";

/// Calls `redraw` whenever the colours change.
export function onThemeChange(redraw) {
  kDark.addEventListener("change", redraw);
  document.addEventListener("themechange", redraw);
}

export function addThemeSwitch(button) {
  const label = () => {
    button.textContent = isDark() ? "Light colours" : "Dark colours";
  };
  button.hidden = false;
  label();
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    label();
    document.dispatchEvent(new Event("themechange"));
  });
  kDark.addEventListener("change", label);
}
