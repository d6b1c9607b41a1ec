// Shows /stats twice a second. All text goes in through textContent: request ids come from outside.
"use strict";

const PERIOD_MS = 500;
const $ = (id) => document.getElementById(id);
const NAMES = { first_token: "time to first token", per_token: "time per token", request: "whole request" };

function rows(table, lines) {
  const body = $(table).tBodies[0];
  body.replaceChildren(...lines.map((cells) => {
    const row = document.createElement("tr");
    row.append(...cells.map((cell) => Object.assign(document.createElement("td"), { textContent: cell })));
    return row;
  }));
}

function drawSteps(steps) {
  const width = 900, height = 160, slots = 300;
  const bar = width / slots;
  const sizeTop = Math.max(1, ...steps.map((s) => s.size)), timeTop = Math.max(1, ...steps.map((s) => s.ms));
  const shapes = steps.map((step, i) => {
    const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    const tall = (height - 8) * step.size / sizeTop;
    for (const [name, value] of Object.entries({ x: i * bar, y: height - tall, width: bar, height: tall }))
      rect.setAttribute(name, value);
    return rect;
  });
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  const points = steps.map((s, i) => `${(i + 0.5) * bar},${height - (height - 8) * s.ms / timeTop}`);
  path.setAttribute("d", points.length ? "M" + points.join("L") : "");
  $("steps").replaceChildren(...shapes, path);
  const last = steps[steps.length - 1];
  $("size-now").textContent = last ? `${last.size} (most ${sizeTop})` : "";
  $("time-now").textContent = last ? `${last.ms.toFixed(1)} ms (most ${timeTop.toFixed(0)} ms)` : "";
}

function drawBlocks(references) {
  const grid = $("blocks");
  while (grid.childElementCount > references.length) grid.lastElementChild.remove();
  while (grid.childElementCount < references.length) grid.append(document.createElement("i"));
  references.forEach((owners, block) => {
    grid.children[block].className = owners === 0 ? "" : owners === 1 ? "used" : "shared";
  });
}

function outputRate(steps) {
  const recent = steps.filter((s) => s.at > Date.now() / 1000 - 5);
  if (recent.length < 2) return 0;
  return recent.reduce((sum, s) => sum + s.output, 0) / 5;
}

function show(stats) {
  $("model").textContent = stats.model;
  $("state").textContent = `${stats.state} · ${stats.dtype ?? ""} · ${stats.kernels ?? ""} kernels`;
  $("state").className = stats.state === "ready" ? "" : "bad";
  $("running").textContent = stats.running;
  $("waiting").textContent = stats.waiting;
  $("rate").textContent = outputRate(stats.steps).toFixed(0);
  $("kv").textContent = `${(100 * stats.kv_use).toFixed(0)} %`;
  const asked = stats.prefix_query_tokens;
  $("hits").textContent = asked ? `${(100 * stats.prefix_hit_tokens / asked).toFixed(0)} %` : "–";
  $("preemptions").textContent = stats.preemptions;
  $("block-size").textContent = `· ${stats.blocks ?? 0} blocks of ${stats.block_tokens ?? 0} tokens`;
  drawSteps(stats.steps);
  drawBlocks(stats.references);
  const cell = (value) => (value === undefined ? "–" : value.toFixed(1));
  rows("latency", Object.entries(NAMES).map(([key, name]) => {
    const p = stats.latency_ms[key] ?? {};
    return [name, cell(p.p50), cell(p.p95), cell(p.p99)];
  }));
  const requests = stats.requests ?? [];
  rows("requests", requests.map((r) => [r.id, r.state, r.prompt, `${r.output} / ${r.max_tokens}`, r.blocks, r.preemptions]));
  $("no-requests").hidden = requests.length > 0;
}

async function poll() {
  try {
    const answer = await fetch("stats");
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    show(await answer.json());
  } catch (error) {
    $("state").textContent = `no answer from the server (${error.message})`;
    $("state").className = "bad";
  }
  setTimeout(poll, PERIOD_MS);
}

poll();
