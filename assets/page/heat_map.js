// A sweep as heat maps, one an image-token budget. Every cell says its numbers; colour repeats
// them: towards the draft's where it is faster than the base alone, the base's where it is slower.
{
  const { make, number } = EagleEye;
  const METRICS = {
    decode: ["Decoding", (cell) => cell.decode_speedup?.median ?? null, (value) => `×${number(value, 2)}`],
    end_to_end: ["Question to end", (cell) => cell.end_to_end_tokens_per_second, (value) => `${number(value, 1)} tok/s`],
  };
  const TITLES = { decode: "Fastest decoding", end_to_end: "Fastest from question to end" };
  let chosen = "decode"; // stays when the map is drawn anew

  const treeName = ({ draft_step, draft_top_k, verify_tree_size }) =>
    `depth ${draft_step}, top-k ${draft_top_k}, ${EagleEye.count(verify_tree_size, "verified token")}`;

  const name = (cell) =>
    cell.image_tokens === null ? treeName(cell.tree) : `${treeName(cell.tree)}, ${cell.image_tokens} image tokens`;

  const measured = (maps) => maps.flatMap((map) => map.rows.flatMap((row) => row.cells)).filter((cell) => cell.state === "measured");

  // From -1 (as slow as the slowest) to 1; the middle is the base's own speed, or the mean.
  const heat = (cells, metric) => {
    const values = cells.map(METRICS[metric][1]).filter((value) => value !== null);
    const middle = metric === "decode" ? 1 : (Math.min(...values) + Math.max(...values)) / 2;
    const reach = Math.max(...values.map((value) => Math.abs(value - middle)), 0.05);
    return (value) => (value === null ? 0 : (value - middle) / reach);
  };

  const sentence = (cell) => {
    const { decode_speedup: speedup, before } = cell;
    const range = speedup && EagleEye.range(speedup, 2);
    const parts = [
      `${name(cell)}: decoding ×${number(speedup?.median, 2)}` + (range ? ` (${range})` : ""),
      `${number(cell.decode_tokens_per_second, 1)} tok/s, ${number(cell.end_to_end_tokens_per_second, 1)} tok/s from question to end`,
      `${number(cell.mean_acceptance_length, 2)} tokens a step`,
      `identical ${cell.num_identical}/${cell.num_prompts}`,
    ];
    if (before) parts.push(`before: ×${number(before.decode_speedup?.median, 2)}, ${number(before.end_to_end_tokens_per_second, 1)} tok/s`);
    return `${parts.join("; ")}.`;
  };

  const change = (cell, metric) => {
    const [now, then] = [cell, cell.before].map(METRICS[metric][1]);
    return now && then ? `was ${METRICS[metric][2](then)}, ÷ ${number(now / then, 2)}` : "";
  };

  const EMPTY = { empty: ["·", "not measured"], impossible: ["–", "no such tree: more tokens than it can draft"] };

  const cellOf = (cell, warmth, metric) => {
    const made = make("td", `ee-heat ee-heat-${cell.state}`);
    made.setAttribute("role", "gridcell");
    made.tabIndex = -1;
    if (cell.state !== "measured") {
      const [sign, words] = EMPTY[cell.state];
      made.append(sign);
      made.setAttribute("aria-label", words);
      return made;
    }
    const value = METRICS[metric][1](cell);
    const degree = warmth(value);
    made.classList.add(degree < 0 ? "ee-heat-slower" : "ee-heat-faster");
    made.style.setProperty("--heat", Math.abs(degree).toFixed(3));
    made.append(make("b", "", METRICS[metric][2](value)), make("small", "", `${number(cell.mean_acceptance_length, 2)} a step`));
    const was = cell.before ? change(cell, metric) : "";
    if (was) made.append(make("small", "", was));
    if (cell.best.includes(metric)) {
      made.classList.add("ee-heat-best");
      made.append(make("em", "", "best"));
    }
    return made;
  };

  const grid = (map, sizes, warmth, metric, explain) => {
    const budget = map.budget === null ? "Image tokens as set" : `At most ${map.budget} image tokens a picture`;
    const head = ["verified", ...sizes.map((size) => EagleEye.count(size, "token"))].map((text) => {
      const made = make("th", "", text);
      made.scope = "col";
      made.setAttribute("role", "columnheader");
      return made;
    });
    const rows = map.rows.map((row) => {
      const title = make("th", "", `depth ${row.step}`, make("small", "", `top-k ${row.top_k}`));
      title.scope = "row";
      title.setAttribute("role", "rowheader");
      const cells = row.cells.map((cell) => {
        const made = cellOf(cell, warmth, metric);
        made.addEventListener("focus", () => explain(cell));
        made.addEventListener("pointerenter", () => explain(cell));
        return made;
      });
      const made = make("tr", "", title, ...cells);
      made.setAttribute("role", "row");
      return made;
    });
    const top = make("tr", "", ...head);
    top.setAttribute("role", "row");
    const table = make("table", "ee-heat-map", make("caption", "", budget), make("thead", "", top), make("tbody", "", ...rows));
    table.setAttribute("role", "grid");
    table.setAttribute("aria-label", `${TITLES[metric]}. ${budget}. Rows: depth and top-k; columns: tokens that one pass verifies`);
    (table.querySelector(".ee-heat-best") ?? table.querySelector(".ee-heat"))?.setAttribute("tabindex", "0");
    table.addEventListener("keydown", (event) => walk(event, table));
    return make("div", "ee-heat-scroll", table);
  };

  // Arrow keys go from cell to cell; one of them at a time is in the order of Tab.
  const walk = (event, table) => {
    const rows = [...table.querySelectorAll("tbody tr")].map((row) => [...row.querySelectorAll(".ee-heat")]);
    const y = rows.findIndex((row) => row.includes(event.target));
    const x = rows[y]?.indexOf(event.target);
    const to = {
      ArrowRight: [y, x + 1], ArrowLeft: [y, x - 1], ArrowDown: [y + 1, x], ArrowUp: [y - 1, x],
      Home: [y, 0], End: [y, rows[0].length - 1],
    }[event.key];
    if (y < 0 || !to) return;
    event.preventDefault();
    const next = rows[to[0]]?.[to[1]];
    if (!next) return;
    event.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  };

  const bestOf = (cells) => make("div", "ee-heat-bests", ...Object.entries(TITLES).flatMap(([metric, title]) => {
    const cell = cells.find((one) => one.best.includes(metric));
    if (!cell) return [];
    const [, value, written] = METRICS[metric];
    return [make("p", "", make("span", "", title), make("strong", "", written(value(cell))), make("span", "", name(cell)), make("code", "", cell.setting))];
  }));

  // The parts of a sweep: the best settings, the maps, and the cell that is looked at in words.
  EagleEye.heatMaps = ({ sizes, maps }) => {
    const cells = measured(maps);
    const host = make("div", "ee-heat-maps");
    const words = make("p", "ee-heat-words", "Choose a cell, with the arrow keys too, for all of its figures.");
    const explain = (cell) => (words.textContent = cell.state === "measured" ? sentence(cell) : `${EMPTY[cell.state][1]}.`);
    const drawAll = () => {
      const warmth = heat(cells, chosen);
      host.replaceChildren(...maps.map((map) => grid(map, sizes, warmth, chosen, explain)));
      for (const button of choice.children) button.setAttribute("aria-pressed", String(button.dataset.metric === chosen));
    };
    const choice = make("div", "ee-heat-choice ee-race-tools", ...Object.entries(METRICS).map(([metric, [title]]) => {
      const button = make("button", "", title);
      button.type = "button";
      button.dataset.metric = metric;
      button.addEventListener("click", () => {
        chosen = metric;
        drawAll();
      });
      return button;
    }));
    choice.setAttribute("role", "group");
    choice.setAttribute("aria-label", "What the maps show");
    drawAll();
    const notes = make("p", "ee-bench-note", "Decoding: tokens a second against the base alone, medians. More image tokens change the answers themselves; "
      + "a sweep measures time, not whether they are better.");
    return [bestOf(cells), choice, host, words, notes];
  };
}
