// Chat, Compare, Benchmark, Learn: all are mounted once and stay; a tab only shows its part. The tab stands
// in the address, so that it can be linked: #compare, or ?tab=compare.
EagleEye.tabs = {
  start() {
    this.buttons = [...document.querySelectorAll("#ee-nav [data-tab]")];
    for (const button of this.buttons) button.addEventListener("click", () => this.show(button.dataset.tab));
    addEventListener("hashchange", () => this.show(location.hash.slice(1)));
    document.addEventListener("keydown", (event) => {
      const button = event.altKey && this.buttons[Number(event.code.match(/^Digit(\d)$/)?.[1]) - 1];
      if (!button) return;
      event.preventDefault();
      this.show(button.dataset.tab);
    });
    this.show(location.hash.slice(1) || new URLSearchParams(location.search).get("tab"));
  },

  show(name) {
    const button = this.buttons.find((one) => one.dataset.tab === name) ?? this.buttons[0];
    for (const one of this.buttons) one.setAttribute("aria-current", one === button ? "page" : "false");
    document.body.dataset.tab = button.dataset.tab;
    if (location.hash.slice(1) !== button.dataset.tab && (location.hash || button !== this.buttons[0])) {
      history.replaceState(null, "", `#${button.dataset.tab}`);
    }
  },
};
