// What pages do beyond links and forms: keys, times that go on, what stays open when a part is shown anew.
"use strict";
(() => {
  const $ = (what, where = document) => where.querySelector(what);
  const $$ = (what, where = document) => [...where.querySelectorAll(what)];

  // Times: how long ago, as of now.
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const brief = (s) => {
    const n = units.findIndex(([size]) => s >= size);
    const [size, name] = units[n];
    const rest = n < 2 ? Math.floor((s % size) / units[n + 1][0]) : n === 2 ? s % 60 : 0;
    return `${Math.floor(s / size)} ${name}` + (rest ? ` ${rest} ${units[n + 1][1]}` : "");
  };
  const tick = () => {
    for (const at of $$("time[data-ago]")) {
      const apart = Math.round((Date.now() - Date.parse(at.dateTime)) / 1000);
      at.textContent = Math.abs(apart) < 1 ? "just now" : apart > 0 ? `${brief(apart)} ago` : `in ${brief(-apart)}`;
    }
  };
  setInterval(tick, 5000);

  // Links that can be handed around lead to where this page is, whatever a proxy made of its address.
  for (const box of $$("[data-link]")) box.value = new URL(box.dataset.link, location.href).href;
  for (const button of $$("[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const box = document.getElementById(button.dataset.copy);
      box.select();
      try { await navigator.clipboard.writeText(box.value); } catch { document.execCommand("copy"); }
      button.textContent = "Copied";
    });
  }

  // What changes by itself is said once, politely, from a place that stays: `data-say` of a part that is shown anew.
  const said = $("#said");
  const say = (text) => { if (said && !document.hidden) said.textContent = text; };
  const sayings = () => new Map($$("[data-say]").map((one) => [one.id, one.dataset.say]));
  let before = sayings();
  document.addEventListener("say", (event) => say(event.detail));
  document.addEventListener("htmx:afterSwap", () => {
    const now = sayings();
    for (const [id, text] of now) if (text !== before.get(id)) say(text);
    before = now;
  });

  // Where the gateway is away the page says so, and as of when it is, until there is an answer again.
  const away = $("#away");
  let answered = new Date();
  const isAway = () => {
    if (!away || !away.hidden) return;
    away.textContent = `The gateway does not answer. What is shown here is as of ${answered.toLocaleTimeString()}; it goes on by itself once there is an answer.`;
    away.hidden = false;
  };
  for (const kind of ["htmx:sendError", "htmx:timeout"]) document.addEventListener(kind, isAway);
  document.addEventListener("htmx:responseError", (event) => { if (event.detail.xhr.status >= 500) isAway(); });
  document.addEventListener("htmx:afterRequest", (event) => {
    if (!event.detail.successful) return;
    answered = new Date();
    if (away) away.hidden = true;
  });

  // A part that is shown anew keeps what was open, and where the focus was: on the same thing, else on the part itself.
  const FOCUSABLE = "a[href], button, summary, input, textarea, select, [tabindex]";
  const alike = (one, where) => {
    const sign = (at) => [at.tagName, at.id, at.getAttribute("href"), at.getAttribute("aria-label"), at.matches("summary") && at.parentElement.id].join("|");
    return $$(FOCUSABLE, where).filter((other) => sign(other) === sign(one));
  };
  let open = new Map(), lost = null;
  document.addEventListener("htmx:beforeRequest", (event) => { if (document.hidden) event.preventDefault(); });
  document.addEventListener("htmx:beforeSwap", (event) => {
    open = new Map($$("details[id]").map((one) => [one.id, one.open]));
    const part = event.detail.target, at = document.activeElement;
    lost = part.contains(at) ? { part: part.id, at, nth: alike(at, part).indexOf(at) } : null;
  });
  document.addEventListener("htmx:afterSwap", () => {
    for (const one of $$("details[id]")) if (open.has(one.id)) one.open = open.get(one.id);
    const part = lost && document.getElementById(lost.part);
    if (!part || document.activeElement !== document.body) return;
    const found = alike(lost.at, part);
    (found[Math.min(lost.nth, found.length - 1)] || part).focus({ preventScroll: true });
  });

  // Keys: one does something where nobody types, and somebody may turn that off.
  const help = $("#help");
  if (!help) return;
  const wanted = $("[data-keys-on]");
  const store = { get: () => { try { return localStorage.getItem("keys"); } catch { return null; } },
                  set: (value) => { try { localStorage.setItem("keys", value); } catch { /* private windows */ } } };
  wanted.checked = store.get() !== "off";
  wanted.addEventListener("change", () => store.set(wanted.checked ? "on" : "off"));
  const ask = $("[data-help]");
  ask.hidden = false;
  ask.addEventListener("click", () => help.showModal());

  let going = 0;
  const move = (by) => {
    const rows = $$("[data-row]").filter((one) => one.offsetParent);
    const at = rows.indexOf(document.activeElement);
    const to = rows[Math.min(rows.length - 1, Math.max(0, at + by))] || rows[0];
    if (to) to.focus();
  };
  const answer = (key) => {
    const found = $(`[data-answers] details[data-key="${key}"]`);
    if (!found) return false;
    found.open = true;
    const first = $("textarea, input:not([type=hidden]), button", found);
    const button = $("button", found);
    (key === "a" ? button : first).focus();
    return true;
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    if (event.target.closest("input:not([readonly]), textarea, select")) return;
    if (event.key === "?") { event.preventDefault(); help.showModal(); return; }
    if (!wanted.checked) return;
    const key = event.key;
    const went = Date.now() - going < 1500 && $(`[data-go="${key}"]`);
    if (went) { going = 0; event.preventDefault(); went.click(); return; }
    if (key === "g") { going = Date.now(); return; }
    if (key === "j" || key === "k") { event.preventDefault(); move(key === "j" ? 1 : -1); return; }
    if (key === "/") { const box = $("[data-search]"); if (box) { event.preventDefault(); box.focus(); box.select(); } return; }
    if (key === "n") { const next = $("[data-next]"); if (next) next.click(); return; }
    if ("aerd".includes(key) && answer(key)) event.preventDefault();
  });
})();
