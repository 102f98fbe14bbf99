// A part that goes on by itself: by its stream where there is one, else by asking now and then; in a hidden tab not at all.
//
// `data-stream` of the part is where its stream begins, `data-at` up to where it is shown. The stream says up to where it
// is to be shown ("moved"), and the part is asked for until it is.
"use strict";
(() => {
  const GATHER_MS = 120;
  const AGAIN_MS = [150, 300, 600, 1200, 2000];
  const RETRY_MS = 15000;
  const part = () => document.querySelector("[data-stream]");
  if (!part()) return;

  let source = null, isOpen = false, isOver = false, tries = 0, asking = 0, retrying = 0;
  const wanted = new Map();
  const numbers = (text) => (text || "").split(",").filter(Boolean).map((one) => {
    const at = one.lastIndexOf(":");
    return [one.slice(0, at), Number(one.slice(at + 1))];
  });
  const isShown = () => {
    const shown = new Map(numbers(part().dataset.at));
    return [...wanted].every(([name, at]) => (shown.get(name) || 0) >= at);
  };

  // Asking for the part.
  const ask = () => {
    asking = 0;
    if (part() && !document.hidden) htmx.trigger(part(), "moved");
  };
  const askIn = (ms) => { if (!asking) asking = setTimeout(ask, ms); };
  document.addEventListener("htmx:beforeRequest", (event) => {
    const by = event.detail.requestConfig.triggeringEvent;
    const polls = event.detail.elt === part() && !(by && by.type === "moved");
    if (polls && (isOpen || isOver)) event.preventDefault();
  });
  document.addEventListener("htmx:afterRequest", () => {
    if (!part() || isShown()) { tries = 0; return; }
    askIn(AGAIN_MS[Math.min(tries++, AGAIN_MS.length - 1)]);
  });

  // The stream.
  const stop = () => {
    isOpen = false;
    clearTimeout(retrying);
    if (source) source.close();
    source = null;
  };
  const retry = () => { stop(); retrying = setTimeout(start, RETRY_MS); };
  const hear = (kind, does) => source.addEventListener(kind, (event) => does(JSON.parse(event.data)));
  function start() {
    if (source || isOver || document.hidden || !part()) return;
    const own = source = new EventSource(part().dataset.stream);
    own.addEventListener("open", () => { isOpen = true; document.dispatchEvent(new CustomEvent("stream-begins")); });
    own.addEventListener("error", () => {
      if (source !== own) return;
      isOpen = false; // the browser tries again by itself, unless it was refused
      if (own.readyState === EventSource.CLOSED) retry();
    });
    hear("moved", (told) => {
      for (const [name, at] of numbers(told.at)) wanted.set(name, Math.max(at, wanted.get(name) || 0));
      askIn(GATHER_MS);
    });
    hear("end", () => { isOver = true; stop(); });
    hear("problem", retry);
    for (const kind of ["token", "token-reset", "token-end"]) {
      hear(kind, (told) => document.dispatchEvent(new CustomEvent(kind, { detail: told })));
    }
  }
  document.addEventListener("visibilitychange", () => { if (document.hidden) stop(); else start(); });
  addEventListener("pagehide", stop);
  addEventListener("pageshow", start);
  start();
})();
