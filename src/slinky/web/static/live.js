// SPDX-License-Identifier: Apache-2.0
// Replaces the live region of the page with what the server sends. Without this script the page shows the same, not live.
"use strict";

(() => {
  const region = document.getElementById("live");
  const status = document.getElementById("live-status");
  const pause = document.getElementById("live-pause");
  if (!region || !window.EventSource) return;

  // Only the server's own markup, which has no script and no handler, passes this policy.
  const policy = window.trustedTypes
    ? window.trustedTypes.createPolicy("slinky", { createHTML: (text) => text })
    : { createHTML: (text) => text };
  let source = null;
  let paused = false;

  function say(text) {
    if (status.textContent !== text) status.textContent = text;
  }

  // What had the focus keeps it: a link is found again by its address, another element by its id.
  function focusKey() {
    const element = document.activeElement;
    if (!element || !region.contains(element)) return null;
    if (element.id) return `#${CSS.escape(element.id)}`;
    const link = element.getAttribute("href");
    if (link) return `a[href="${CSS.escape(link)}"]`;
    const label = element.getAttribute("aria-label");
    return label ? `[aria-label="${CSS.escape(label)}"]` : null;
  }

  function show(markup) {
    const key = focusKey();
    const scrolls = [...region.querySelectorAll(".scroll")].map((element) => element.scrollLeft);
    const parsed = new DOMParser().parseFromString(policy.createHTML(markup), "text/html");
    region.replaceChildren(...parsed.body.childNodes);
    region.querySelectorAll(".scroll").forEach((element, index) => { element.scrollLeft = scrolls[index] || 0; });
    if (key) region.querySelector(key)?.focus({ preventScroll: true });
    tick();
  }

  function open() {
    if (source || paused || document.hidden) return;
    const address = location.pathname + location.search;
    source = new EventSource(`/live?address=${encodeURIComponent(address)}`);
    source.addEventListener("page", (event) => { say(""); show(JSON.parse(event.data)); });
    source.onerror = () => say(
      source && source.readyState === EventSource.CLOSED
        ? "No live updates: reload the page to log in again or to try again."
        : "No live updates: the server cannot be reached. Trying again.");
  }

  function close() {
    if (source) source.close();
    source = null;
  }

  function tick() {
    for (const element of region.querySelectorAll("[data-age]")) {
      const seconds = Math.max(0, Math.round(Date.now() / 1000 - Number(element.dataset.age)));
      element.textContent = seconds < 120 ? ` (${seconds} s ago)` : ` (${Math.round(seconds / 60)} min ago)`;
    }
  }

  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    say(paused ? "Updates are paused." : "");
    if (paused) close(); else open();
  });
  // A browser opens few connections to one server: a page that nobody looks at gives its connection back.
  document.addEventListener("visibilitychange", () => { if (document.hidden) close(); else open(); });
  window.addEventListener("pagehide", close);
  setInterval(tick, 1000);
  tick();
  open();
})();
