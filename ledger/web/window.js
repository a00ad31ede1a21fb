"use strict";
// SPDX-License-Identifier: GPL-3.0-or-later
// The sections that check a whole window, and files that a visitor has.  The checks are verify.js'; here they are shown.
(() => {
  const $ = id => document.getElementById(id);
  const WORDS = { good: "✔ holds: ", bad: "✘ DOES NOT HOLD: ", open: "– not checked: " };
  const WHOSE = {
    files: "whoever serves these files could have made it so: get them elsewhere before you blame the provider",
    log: "it stands under the log's own signature: keep the checkpoint and show it to the accounts and their auditor",
    provider: "the provider's signature stands over it: keep it and show it to the accounts and their auditor",
  };
  const show = (list, line) => {
    const li = document.createElement("li"), mark = document.createElement("span"), step = document.createElement("strong");
    mark.className = line.state === "open" ? "wait" : line.state;
    mark.textContent = WORDS[line.state]; step.textContent = `${line.step}: `;
    li.append(mark, step, line.text + (line.whose ? ` (${WHOSE[line.whose]})` : ""));
    for (const [at, note] of (line.notes ?? []).entries()) {
      const link = document.createElement("a");
      link.href = "data:text/plain;base64," + btoa(String.fromCharCode(...new TextEncoder().encode(note)));
      link.download = `evidence-${at + 1}.note`; link.textContent = `Save note ${at + 1}`;
      li.append(" ", link);
    }
    $(list).append(li);
  };
  const say = (id, state, words) => { $(id).className = state; $(id).textContent = words; };

  // --- a whole window
  let worker = null;
  const done = () => { if (worker) worker.terminate(); worker = null; $("check-window").disabled = false; $("stop-window").disabled = true; };
  const began = () => {
    const code = new Blob([$("verify").textContent], { type: "text/javascript" });
    return new Worker(URL.createObjectURL(code));
  };
  const listen = event => {
    const { line, progress, report, error } = event.data;
    if (line) show("window-checks", line);
    if (progress) say("window-said", "wait", `… ${progress[0]} of ${progress[1]} records' proofs are checked`);
    if (error) say("window-said", "bad", `✘ Not checked to the end: ${error}`);
    if (report) {
      const which = report.window ? `window ${report.window}` : "no window";
      const proven = `${report.proven} of ${report.records} records proven`;
      say("window-said", report.state === "open" ? "wait" : report.state, {
        good: `✔ All that was checked of ${which} holds: ${proven}. Read below what was not checked.`,
        bad: `✘ Something of ${which} does not hold: see below.`,
        open: `– Not all of ${which} could be checked: ${proven}. See below what is missing.`,
      }[report.state]);
    }
    if (report || error) { done(); $("window-said").focus(); }
  };
  $("window-form").onsubmit = event => {
    event.preventDefault();
    const { checkedLog: log } = globalThis, policy = $("policy").value.trim();
    if (!log) return say("window-said", "bad", "✘ This page has checked no checkpoint of this log: see above.");
    $("window-checks").replaceChildren();
    $("check-window").disabled = true; $("stop-window").disabled = false;
    say("window-said", "wait", "… Reading the log");
    try { worker = began(); } catch (error) { done(); return say("window-said", "bad", `✘ This browser starts no worker: ${error.message}`); }
    worker.onmessage = listen;
    worker.onerror = event => { say("window-said", "bad", `✘ Not checked to the end: ${event.message || "the worker failed"}`); done(); };
    worker.postMessage({ base: new URL("./", location.href).href, logKey: log.key, kept: log.note, window: $("window-name").value.trim(),
      ...(policy ? { policy } : {}) });
  };
  $("stop-window").onclick = () => { done(); say("window-said", "wait", "– Stopped: nothing follows from what is below alone."); };

  // --- files that a visitor has
  const MOST = 2 ** 24;  // bytes of a file
  let latest = 0;
  const check = async files => {
    const given = [...files], own = ++latest;
    if (!given.length) return;
    $("file-checks").replaceChildren();
    say("file-said", "wait", "… Checking");
    try {
      const read = async file => {
        if (file.size > MOST) throw new Error(`${file.name} has more than ${MOST} bytes`);
        return { name: file.name, data: new Uint8Array(await file.arrayBuffer().catch(() => { throw new Error(`${file.name} cannot be read`); })) };
      };
      const data = await Promise.all(given.map(read));
      if (own !== latest) return;  // others were dropped meanwhile
      const lines = globalThis.ragsealVerify.checkDropped(data, { logKey: $("vkey").textContent, auditorKey: $("auditor-key").value,
        turns: globalThis.checkedLog?.turns ?? [] });
      for (const line of lines) show("file-checks", line);
      const bad = lines.filter(line => line.state === "bad").length, open = lines.filter(line => line.state === "open").length;
      say("file-said", bad ? "bad" : open ? "wait" : "good", bad ? `✘ ${bad} of these checks fail.`
        : open ? `– What was checked holds; ${open} things were not checked.` : "✔ All of it holds.");
    } catch (error) {
      if (own !== latest) return;
      $("file-checks").replaceChildren();
      say("file-said", "bad", `✘ Nothing was checked: ${globalThis.ragsealVerify.printable(error.message)}`);
    }
  };
  $("files").onchange = () => void check($("files").files);
  const zone = $("drop");
  for (const name of ["dragover", "dragleave", "drop"]) {
    zone.addEventListener(name, event => {
      event.preventDefault(); zone.dataset.over = String(name === "dragover");
      if (name === "drop") void check(event.dataTransfer.files);
    });
  }
})();
