// What attempts say while they run, below their step: each under its number, as text and nothing else. An attempt that
// loses is struck out and named; the recorded result takes the place of all of it.
"use strict";
(() => {
  const TEXT_MAX = 20000;
  const RUNS_MAX = 6;
  const LOST = {
    failed: "failed",
    given_back: "was given back",
    superseded: "lost its place to another",
    uncertain: "ended in doubt",
    cancelled: "was cancelled",
  };
  const steps = new Map(); // by activity id: its place, once it had one, and its runs

  const placeOf = (id) => [...document.querySelectorAll("[data-activity]")].find((one) => one.dataset.activity === id);
  const made = (tag, kind, text) => {
    const one = document.createElement(tag);
    one.className = kind;
    one.textContent = text;
    return one;
  };
  const show = (id) => {
    const step = steps.get(id), place = placeOf(id);
    if (!step) return;
    if (!place) {
      if (step.wasShown) steps.delete(id); // it is recorded by now
      return;
    }
    step.wasShown = true;
    place.hidden = step.runs.length === 0;
    step.runs.forEach((run, n) => { if (place.children[n] !== run.box) place.insertBefore(run.box, place.children[n] || null); });
    while (place.children.length > step.runs.length) place.lastElementChild.remove();
  };
  const name = (run) => {
    const told = run.why ? `${LOST[run.why] || "has lost"}: what it said does not count` : run.isOver ? "is recorded" : "says";
    run.head.textContent = `Attempt ${run.attempt} ${told}`;
    run.box.classList.toggle("lost", Boolean(run.why));
  };
  const begun = (step, attempt) => {
    const run = { attempt, next: 0, why: "", isOver: false, length: 0, box: made("div", "attempt", "") };
    run.head = made("p", "attempt-head", "");
    run.text = made("p", "attempt-text", "");
    run.box.append(run.head, run.text);
    step.runs = [...step.runs, run].slice(-RUNS_MAX);
    return run;
  };
  const say = (run, told) => {
    const piece = (told.index > run.next ? "…" : "") + told.text;
    run.next = told.index + 1;
    run.length += piece.length;
    if (run.length <= TEXT_MAX) { run.text.append(piece); return; }
    run.text.textContent = `…${(run.text.textContent + piece).slice(-TEXT_MAX / 2)}`;
    run.length = run.text.textContent.length;
  };
  const strike = (run, why) => {
    run.why = why;
    const struck = made("s", "", run.text.textContent);
    run.text.replaceChildren(struck);
  };
  const going = (step, attempt) => step && step.runs.findLast((run) => run.attempt === attempt && !run.why);

  document.addEventListener("token", ({ detail: told }) => {
    const step = steps.get(told.activity_id) || { wasShown: false, runs: [] };
    steps.set(told.activity_id, step);
    const run = going(step, told.attempt) || begun(step, told.attempt);
    say(run, told);
    name(run);
    show(told.activity_id);
  });
  document.addEventListener("token-reset", ({ detail: told }) => {
    const run = going(steps.get(told.activity_id), told.attempt);
    if (!run) return;
    strike(run, told.why);
    name(run);
    show(told.activity_id);
    document.dispatchEvent(new CustomEvent("say", { detail: run.head.textContent }));
  });
  document.addEventListener("token-end", ({ detail: told }) => {
    const run = going(steps.get(told.activity_id), told.attempt);
    if (!run) return;
    run.isOver = true;
    name(run);
  });
  // A stream that begins says again what its attempts have said so far.
  document.addEventListener("stream-begins", () => {
    for (const [id, step] of steps) {
      step.runs = step.runs.filter((run) => run.why);
      show(id);
    }
  });
  document.addEventListener("htmx:afterSwap", () => { for (const id of [...steps.keys()]) show(id); });
})();
