// A benchmark's report as figures, a table by category, and what it was measured on. Median and
// spread stand as numbers; the bars under tokens/s repeat them to one scale.
{
  const { make, number } = EagleEye;
  const HEAD = [
    "", "tokens", "tok/s base", "tok/s EAGLE-3", "×", "× end to end", "tokens a step", "by position",
    "first token, ms", "per token, ms", "identical",
  ];
  const NOTES = "Medians; small, the middle half of the measurements. First token and per token: p50 / p95, the base "
    + "above EAGLE-3. Tokens a step is the mean acceptance length, the base's own token included; by position is the "
    + "share of steps that kept the draft's token at depth 1, 2, … .";

  // The quarters around a median; nothing where they are the same figure.
  EagleEye.range = (spread, digits) => {
    const [low, high] = [number(spread.p25, digits), number(spread.p75, digits)];
    return low === high ? "" : `${low} to ${high}`;
  };

  const median = (spread, digits, sign = "") => {
    const range = EagleEye.range(spread, digits);
    return [make("b", "", sign + number(spread.median, digits)), ...(range ? [make("small", "", range)] : [])];
  };

  const ratio = (spread) => (spread ? median(spread, 2, "×") : ["–"]);

  const speed = (spread, kind, most) => {
    if (!spread) return ["–"];
    const fill = make("i", `ee-fill-${kind}`);
    fill.style.width = `${(100 * spread.median) / most}%`;
    const reach = make("u");
    reach.style.left = `${(100 * spread.p25) / most}%`;
    reach.style.width = `${(100 * (spread.p75 - spread.p25)) / most}%`;
    const bar = make("span", "ee-speed", fill, reach);
    bar.setAttribute("aria-hidden", "true");
    return [...median(spread, 1), bar];
  };

  const milliseconds = (seconds) => number(1000 * seconds, seconds < 0.1 ? 1 : 0);

  const waiting = (base, eagle) => {
    const line = (name, latency) => make("span", "ee-waiting-line", make("small", "", name),
      latency ? `${milliseconds(latency.p50)} / ${milliseconds(latency.p95)}` : "–");
    return [line("base", base), line("EAGLE-3", eagle)];
  };

  const positions = (shares) => {
    if (!shares.length) return ["–"];
    return [make("span", "ee-depths", ...shares.map((share) => {
      const bar = make("i", "ee-fill-draft");
      bar.style.height = `${100 * share}%`;
      return make("span", "", make("span", "ee-depth-bar", bar), make("small", "", number(share, 2)));
    }))];
  };

  const cells = (group, most, isSampled) => [
    [String(group.num_tokens)],
    speed(group.base_tokens_per_second, "base", most),
    speed(group.eagle_tokens_per_second, "draft", most),
    ratio(group.decode_speedup),
    ratio(group.end_to_end_speedup),
    [make("b", "", number(group.mean_acceptance_length, 2))],
    positions(group.acceptance_by_position),
    waiting(group.base_time_to_first_token, group.eagle_time_to_first_token),
    waiting(group.base_time_per_output_token, group.eagle_time_per_output_token),
    [isSampled ? `sampled, ${group.num_identical}/${group.num_prompts}` : `${group.num_identical}/${group.num_prompts}`],
  ];

  const row = (name, entries) => {
    const head = make("th", "", name);
    head.scope = "row";
    const made = make("tr", name === "all" ? "ee-all" : "", head);
    entries.forEach((entry, index) => {
      const cell = make("td", "", ...entry);
      cell.dataset.label = HEAD[index + 1];
      made.append(cell);
    });
    return made;
  };

  // Roles by name: the narrow screen's styles take a table's own away.
  EagleEye.table = (label, head, rows) => {
    const table = make("table", "ee-table", make("thead", "", make("tr", "", ...head.map((text) => {
      const cell = make("th", "", text);
      cell.scope = "col";
      cell.dataset.label = text;
      return cell;
    }))), make("tbody", "", ...rows));
    table.setAttribute("aria-label", label);
    const roles = { table: "table", "thead, tbody": "rowgroup", tr: "row", td: "cell", "thead th": "columnheader", "tbody th": "rowheader" };
    table.setAttribute("role", roles.table);
    for (const [selector, role] of Object.entries(roles)) {
      for (const node of table.querySelectorAll(selector)) node.setAttribute("role", role);
    }
    return table;
  };

  const headline = (group, isSampled) => {
    const figure = (name, text, kind) => {
      const value = make("dd", "", text);
      value.dataset.kind = kind ?? "";
      return make("div", "", make("dt", "", name), value);
    };
    const all = group.num_identical === group.num_prompts;
    return make("dl", "ee-bench-figures",
      figure("decoding", group.decode_speedup ? `×${number(group.decode_speedup.median, 2)}` : "–"),
      figure("end to end", group.end_to_end_speedup ? `×${number(group.end_to_end_speedup.median, 2)}` : "–"),
      figure("tokens a step", number(group.mean_acceptance_length, 2)),
      figure(isSampled ? "sampled alike" : "identical", `${group.num_identical}/${group.num_prompts}`, all ? "identical" : isSampled ? "" : "differs"),
    );
  };

  EagleEye.benchReport = ({ groups, skipped, is_sampled: isSampled }) => {
    const rates = groups.flatMap((group) => [group.base_tokens_per_second, group.eagle_tokens_per_second]);
    const most = Math.max(...rates.map((spread) => spread?.p75 ?? 0), 1e-9);
    const made = [];
    if (groups.length) {
      made.push(headline(groups.at(-1), isSampled));
      made.push(EagleEye.table("Base against EAGLE-3 by category", HEAD, groups.map((group) => row(group.name, cells(group, most, isSampled)))));
      made.push(make("p", "ee-bench-note", NOTES));
    }
    if (skipped.length) {
      const items = skipped.map((item) => make("li", "", make("b", "", `Question ${item.question}, turn ${item.turn}: `), item.reason));
      made.push(make("h3", "", `Skipped: ${skipped.length}`), make("ul", "ee-bench-skipped", ...items));
    }
    return made;
  };

  EagleEye.benchFacts = (facts) =>
    make("dl", "ee-bench-facts", ...facts.map(([name, text]) => make("div", "", make("dt", "", name), make("dd", "", text))));

  const CHANGES = ["", "base, now ÷ before", "EAGLE-3, now ÷ before", "× before", "× now", "tokens a step before", "now"];

  EagleEye.benchChanges = ({ rows, conditions }) => {
    const table = EagleEye.table("Now against the earlier file", CHANGES, rows.map((item) => {
      const values = [
        item.base_speed_ratio, item.eagle_speed_ratio, item.decode_speedup_before, item.decode_speedup_now,
        item.acceptance_length_before, item.acceptance_length_now,
      ];
      const made = row(item.name, values.map((value, index) => [make(index < 2 ? "b" : "span", "", number(value, 2))]));
      made.querySelectorAll("td").forEach((cell, index) => (cell.dataset.label = CHANGES[index + 1]));
      return made;
    }));
    const notes = conditions.map((text) => make("li", "", text));
    return [
      make("h3", "", "Now against the earlier file"),
      ...(rows.length ? [table] : [make("p", "", "The two have no question and turn in common.")]),
      ...(notes.length ? [make("p", "ee-bench-note", "What else differs:"), make("ul", "ee-bench-skipped", ...notes)] : []),
    ];
  };
}
