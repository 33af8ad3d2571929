// The draft tree of one step: every node with the draft's probability (q) and the base's (p), the
// accepted path, the node where it failed, and what the base chose there.
EagleEye.Tree = class {
  static COLUMN = 92;
  static ROW = 40;
  static WIDTH = 80;
  static HEIGHT = 32;

  constructor(host) {
    this.host = host;
    host.classList.add("ee-tree");
  }

  show(step) {
    this.host.replaceChildren();
    if (!step?.tree) {
      const why = step && step.index === 0
        ? "Step 0 reads the prompt: nothing is drafted yet."
        : step ? "The base decoded this step alone: there is no tree." : "Choose a step to see its draft tree.";
      this.host.append(EagleEye.make("p", "ee-tree-none", why));
      return;
    }
    const sentence = EagleEye.treeSentence(step.tree);
    const scroll = EagleEye.make("div", "ee-tree-scroll");
    scroll.tabIndex = 0;
    scroll.setAttribute("role", "region");
    scroll.setAttribute("aria-label", "Draft tree");
    scroll.append(this.draw(step.tree, sentence));
    this.host.append(scroll, EagleEye.make("p", "ee-tree-sentence", sentence));
  }

  draw(tree, sentence) {
    const nodes = this.place(tree);
    const columns = Math.max(...nodes.map((node) => node.column)) + 1;
    const rows = Math.max(...nodes.map((node) => node.row)) + 1;
    const svg = this.element("svg", {
      width: columns * EagleEye.Tree.COLUMN, height: rows * EagleEye.Tree.ROW, role: "img", "aria-label": sentence,
    });
    for (const node of nodes) if (node.parent >= 0) svg.append(this.edge(nodes[node.parent], node));
    for (const node of nodes) svg.append(this.box(node));
    return svg;
  }

  // Columns are depths; the first child stands in its parent's row, so the accepted path, sorted
  // first, is a straight line. The base's own token is a last child where the path ends.
  place(tree) {
    const accepted = new Set(tree.path);
    const failed = EagleEye.refused(tree)[0];
    const children = tree.parents.map(() => []);
    tree.parents.forEach((parent, node) => parent >= 0 && children[parent].push(node));
    const nodes = tree.token_ids.map((id, node) => ({
      id, node, parent: tree.parents[node], text: tree.texts[node],
      q: tree.draft_probabilities[node], p: tree.target_probabilities[node],
      kind: node === 0 ? "root" : accepted.has(node) ? "accepted" : node === failed ? "failed" : "refused",
    }));
    const end = tree.path.at(-1);
    nodes.push({
      id: tree.target_token, node: nodes.length, parent: end, text: tree.target_text,
      p: tree.target_probability, rank: tree.target_rank, kind: "target",
    });
    children.push([]);
    children[end].unshift(nodes.length - 1);
    let nextRow = 0;
    const visit = (node, column) => {
      nodes[node].column = column;
      nodes[node].row = nextRow;
      const order = children[node].sort((a, b) => this.order(nodes[a]) - this.order(nodes[b]));
      order.forEach((child, place) => {
        if (place > 0) nextRow += 1;
        visit(child, column + 1);
      });
    };
    visit(0, 0);
    return nodes;
  }

  order(node) {
    if (node.kind === "accepted") return -2;
    if (node.kind === "target") return -1;
    return 1 - node.q;
  }

  edge(from, to) {
    const { COLUMN, ROW, WIDTH, HEIGHT } = EagleEye.Tree;
    const x = from.column * COLUMN + WIDTH;
    const y = from.row * ROW + HEIGHT / 2;
    const endX = to.column * COLUMN;
    const endY = to.row * ROW + HEIGHT / 2;
    const middle = x + (COLUMN - WIDTH) / 2;
    return this.element("path", {
      d: `M${x} ${y}H${middle}V${endY}H${endX}`, class: `ee-edge ee-edge-${to.kind}`,
    });
  }

  box(node) {
    const { COLUMN, ROW, WIDTH, HEIGHT } = EagleEye.Tree;
    const group = this.element("g", {
      transform: `translate(${node.column * COLUMN} ${node.row * ROW})`, class: `ee-node ee-node-${node.kind}`,
    });
    const title = this.element("title");
    title.textContent = this.describe(node);
    group.append(title, this.element("rect", { width: WIDTH, height: HEIGHT, rx: 7 }));
    const text = EagleEye.visible(node.text);
    group.append(this.text(node.kind === "root" ? 20 : 14, text.length > 9 ? `${text.slice(0, 8)}…` : text, "ee-node-text"));
    if (node.kind !== "root") group.append(this.text(26, this.facts(node), "ee-node-facts"));
    return group;
  }

  facts(node) {
    const percent = (value) => `${Math.round(100 * value)}`;
    if (node.kind === "target") return `base ${percent(node.p)} %`;
    return `q ${percent(node.q)} · p ${percent(node.p)} %`;
  }

  describe(node) {
    const name = `“${node.text}” (token ${node.id})`;
    if (node.kind === "root") return `${name}: the last token of the text so far`;
    if (node.kind === "target") return `${name}: the base's own token${EagleEye.rankPhrase(node.rank)}`;
    const verdict = { accepted: "accepted", failed: "refused here", refused: "not reached" }[node.kind];
    return `${name}: ${verdict}; draft ${EagleEye.number(100 * node.q, 1)} %, base ${EagleEye.number(100 * node.p, 1)} %`;
  }

  text(y, content, className) {
    const made = this.element("text", { x: EagleEye.Tree.WIDTH / 2, y, class: className });
    made.textContent = content;
    return made;
  }

  element(name, attributes = {}) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }
};

EagleEye.rankPhrase = (rank) =>
  rank == null ? ", which the draft did not have in mind" : `, the draft's number ${rank} there`;

EagleEye.treeSentence = (tree) => {
  const proposed = tree.token_ids.length - 1;
  const accepted = tree.path.length - 1;
  const failed = EagleEye.refused(tree)[0];
  const start = `${EagleEye.count(proposed, "token")} proposed, ${accepted || "none"} accepted`;
  const added = `“${EagleEye.visible(tree.target_text)}”`;
  if (failed === undefined) return `${start}, to the tree's end; the base added ${added} for free.`;
  const instead = `“${EagleEye.visible(tree.texts[failed])}”`;
  return `${start}; after them the draft expected ${instead}, but the base chose ${added}${EagleEye.rankPhrase(tree.target_rank)}.`;
};
