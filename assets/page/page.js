() => {
  const $ = (selector) => document.querySelector(selector);

  // The settings drawer.
  const drawer = $("#ee-drawer");
  const opener = $("#ee-settings-button");
  const setDrawer = (open) => {
    drawer.classList.toggle("ee-open", open);
    opener.setAttribute("aria-expanded", String(open));
    drawer.inert = !open;
    (open ? drawer.querySelector("input, button") : opener).focus();
  };
  drawer.inert = true;
  drawer.setAttribute("role", "region");
  drawer.setAttribute("aria-label", "Settings");
  opener.setAttribute("aria-expanded", "false");
  const isOpen = () => drawer.classList.contains("ee-open");
  opener.addEventListener("click", () => setDrawer(!isOpen()));
  $("#ee-drawer-close").addEventListener("click", () => setDrawer(false));

  EagleEye.tabs.start();
  EagleEye.connection.start();
  EagleEye.help.start();
  $("#ee-help-button").addEventListener("click", () => EagleEye.help.show());
  EagleEye.answers.start($("#ee-chat-column"));
  document.addEventListener("keydown", (event) => {
    if (!event.altKey || event.code !== "KeyT") return;
    event.preventDefault();
    EagleEye.answers.turn();
  });

  $("#ee-theme-button").addEventListener("click", () => document.body.classList.toggle("dark"));

  // Gradio's own way would scroll a narrow page past its head; on a touch screen a keyboard comes up.
  const toComposer = () => {
    if (matchMedia("(pointer: fine)").matches) $("#ee-composer textarea")?.focus({ preventScroll: true });
  };
  toComposer();
  $("#ee-cards").addEventListener("click", ({ target }) => target.closest("[data-example]") && toComposer());

  const composers = () => document.querySelectorAll("#ee-composer, #ee-compare-composer");
  const visibleComposer = () => [...composers()].find((one) => one.offsetParent);

  // Escape closes what is open: the browser a dialog, this the drawer. Else it stops the answer.
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || $("dialog[open]")) return;
    if (isOpen()) setDrawer(false);
    else [...document.querySelectorAll(".stop-button, #ee-bench [data-act=stop]")].find((one) => one.offsetParent)?.click();
  });

  for (const composer of composers()) {
    // The button goes when it has been pressed; whoever pressed it goes on typing.
    composer.addEventListener("click", (event) => {
      if (event.target.closest(".stop-button")) composer.querySelector("textarea").focus();
    });
    // The same picture twice in a row: without this the browser sees no change and stays silent.
    composer.addEventListener("click", (event) => {
      if (event.target.closest(".upload-button")) composer.querySelector("input[type=file]").value = "";
    }, { capture: true });
  }

  // A picture may be dropped anywhere; the browser would open it in place of the page.
  const dropsFiles = (event) => event.dataTransfer?.types.includes("Files");
  document.addEventListener("dragover", (event) => {
    if (dropsFiles(event)) event.preventDefault();
  });
  document.addEventListener("drop", (event) => {
    if (!dropsFiles(event) || event.target.closest("#ee-composer, #ee-compare-composer")) return;
    event.preventDefault();
    const input = visibleComposer()?.querySelector("input[type=file]");
    if (!input) return;
    input.files = event.dataTransfer.files;
    input.dispatchEvent(new Event("change", { bubbles: true }));
  });

  // Names that Gradio leaves out; its parts come and go, hence the observer.
  const name = () => {
    const names = [["textarea", "Your question"], [".upload-button", "Add pictures"], [".stop-button", "Stop"]];
    for (const composer of composers()) {
      for (const [selector, text] of names) composer.querySelector(selector)?.setAttribute("aria-label", text);
    }
    $("#ee-composer .submit-button")?.setAttribute("aria-label", "Ask");
    $("#ee-compare-composer .submit-button")?.setAttribute("aria-label", "Race");
    for (const choice of document.querySelectorAll("fieldset:not([aria-label])")) {
      choice.setAttribute("aria-label", choice.querySelector(":scope > span").textContent.trim());
    }
    for (const picture of document.querySelectorAll("#ee-chat .user button:not([aria-label])")) {
      picture.setAttribute("aria-label", "Show the picture");
    }
    // Gradio's names repeat the whole message, with its HTML; the text itself is read instead.
    for (const message of document.querySelectorAll("#ee-chat [data-testid][aria-label]")) {
      message.removeAttribute("aria-label");
    }
    // Read aloud once by the panel when the answer is there, not at every update.
    $("#ee-chat [role=log]")?.setAttribute("aria-live", "off");
  };
  name();
  // A race draws at every frame, and all in it has its name already.
  const nameAnew = (changes) => {
    if (changes.some(({ target }) => !target.closest("#ee-race"))) name();
  };
  for (const column of [$("#ee-chat-column"), $("#ee-compare")]) {
    new MutationObserver(nameAnew).observe(column, { childList: true, subtree: true });
  }
}
