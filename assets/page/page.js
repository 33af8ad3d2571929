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

  EagleEye.answers.start($("#ee-chat-column"));
  document.addEventListener("keydown", (event) => {
    if (!event.altKey || event.code !== "KeyT") return;
    event.preventDefault();
    EagleEye.answers.turn();
  });

  $("#ee-theme-button").addEventListener("click", () => document.body.classList.toggle("dark"));

  // Escape closes the drawer, else it stops the answer.
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    if (isOpen()) setDrawer(false);
    else $("#ee-composer .stop-button")?.click();
  });

  // The button goes when it has been pressed; whoever pressed it goes on typing.
  $("#ee-composer").addEventListener("click", (event) => {
    if (event.target.closest(".stop-button")) $("#ee-composer textarea").focus();
  });

  // The same picture twice in a row: without this the browser sees no change and stays silent.
  $("#ee-composer").addEventListener("click", (event) => {
    if (!event.target.closest(".upload-button")) return;
    $("#ee-composer input[type=file]").value = "";
  }, { capture: true });

  // A picture may be dropped anywhere; the browser would open it in place of the page.
  const dropsFiles = (event) => event.dataTransfer?.types.includes("Files");
  document.addEventListener("dragover", (event) => {
    if (dropsFiles(event)) event.preventDefault();
  });
  document.addEventListener("drop", (event) => {
    if (!dropsFiles(event) || event.target.closest("#ee-composer")) return;
    event.preventDefault();
    const input = $("#ee-composer input[type=file]");
    if (!input) return;
    input.files = event.dataTransfer.files;
    input.dispatchEvent(new Event("change", { bubbles: true }));
  });

  // Names that Gradio leaves out; its parts come and go, hence the observer.
  const name = () => {
    $("#ee-composer textarea")?.setAttribute("aria-label", "Your question");
    $("#ee-composer .upload-button")?.setAttribute("aria-label", "Add pictures");
    $("#ee-composer .submit-button")?.setAttribute("aria-label", "Ask");
    $("#ee-composer .stop-button")?.setAttribute("aria-label", "Stop");
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
  new MutationObserver(name).observe($("#ee-chat-column"), { childList: true, subtree: true });
}
