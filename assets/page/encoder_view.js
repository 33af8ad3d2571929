// What the encoder sees of the pictures in the composer. Gradio mounts the template once; this draws
// into it. A look is asked for when a picture comes or goes and when a limit is let go of; after the
// question was sent, the tokens used are held against those shown.
const find = (selector) => element.querySelector(selector);
const section = find(".ee-encoder");
const pictures = find(".ee-encoder-pictures");
const slider = find(".ee-encoder-limit input");
const number = find(".ee-encoder-number");
const presets = find(".ee-encoder-presets");
const used = find(".ee-encoder-used");
const LOUPE = 3; // times larger

const attached = () => document.querySelectorAll("#ee-composer .thumbnail-item").length;
let count = 0; // pictures in the composer at the last look
let sent = null; // what was shown of the pictures when their question was sent
let before = -1; // the newest run when they were shown

const newestRun = () => Math.max(-1, ...EagleEye.runs.byNumber.keys());

const look = (data = {}) => {
  section.classList.add("ee-looking");
  trigger("look", data);
};

// The tensor's own pixels, enlarged where the pointer is, under the same lattice of tokens.
const addLoupe = (frame, picture) => {
  const glass = EagleEye.make("div", "ee-loupe ee-lattice");
  glass.hidden = true;
  frame.append(glass);
  const move = (event) => {
    const box = frame.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    glass.hidden = x < 0 || y < 0 || x > box.width || y > box.height;
    const half = glass.offsetWidth / 2;
    const [width, height] = [box.width * LOUPE, box.height * LOUPE];
    const cell = `${width / picture.columns}px ${height / picture.rows}px`;
    const at = `${half - x * LOUPE}px ${half - y * LOUPE}px`;
    glass.style.backgroundImage = `var(--ee-lattice-x), var(--ee-lattice-y), url(${picture.source})`;
    glass.style.backgroundSize = `${cell}, ${cell}, ${width}px ${height}px`;
    glass.style.backgroundPosition = at;
    glass.style.backgroundRepeat = "repeat, repeat, no-repeat";
    glass.style.translate = `${x - half}px ${y - half}px`;
  };
  frame.addEventListener("pointermove", move);
  frame.addEventListener("pointerdown", move);
  frame.addEventListener("pointerleave", () => (glass.hidden = true));
};

const figure = (picture) => {
  const box = EagleEye.make("figure", "");
  const frame = EagleEye.make("div", "ee-seen");
  const image = EagleEye.make("img", "");
  image.src = picture.source;
  image.alt = "The picture as the encoder gets it";
  const lattice = EagleEye.make("div", "ee-lattice");
  lattice.style.backgroundSize = `${100 / picture.columns}% ${100 / picture.rows}%`;
  frame.append(image, lattice);
  addLoupe(frame, picture);
  const caption = EagleEye.make("figcaption", "");
  caption.append(
    EagleEye.make("strong", "ee-encoder-size", picture.sentence),
    EagleEye.make("span", "ee-encoder-bound", picture.bound),
  );
  if (picture.is_cached) caption.append(EagleEye.make("span", "ee-encoder-cached", "cached: not encoded again"));
  box.append(frame, caption);
  return box;
};

const drawLimit = (value) => {
  [slider.min, slider.max] = value.range;
  slider.value = value.per_image;
  number.textContent = value.per_image;
  presets.replaceChildren(
    ...value.presets.map((tokens) => {
      const button = EagleEye.make("button", "", String(tokens));
      button.type = "button";
      button.setAttribute("aria-pressed", String(tokens === value.per_image));
      button.addEventListener("click", () => look({ tokens }));
      return button;
    }),
  );
};

const draw = () => {
  const value = props.value ?? {};
  section.classList.remove("ee-looking");
  find(".ee-encoder-problem").textContent = value.problem ?? "";
  if (value.pictures) {
    pictures.replaceChildren(...value.pictures.map(figure));
    find(".ee-encoder-cost").textContent = value.cost;
    drawLimit(value);
    if (value.pictures.length) before = newestRun();
  }
  section.hidden = attached() === 0;
};

slider.addEventListener("input", () => (number.textContent = slider.value));
slider.addEventListener("change", () => look({ tokens: Number(slider.value) }));
document.addEventListener("change", (event) => {
  const isLimit = event.target.type === "number" && event.target.closest("#ee-drawer");
  if (isLimit && attached()) setTimeout(look, 50); // Gradio takes the number first
});

const onPictures = () => {
  const now = attached();
  if (now === count) return;
  const gone = now === 0;
  if (gone && props.value?.pictures?.length) {
    sent = props.value;
  }
  count = now;
  section.hidden = gone;
  if (!gone) {
    used.hidden = true;
    sent = null;
    setTimeout(look, 50); // once the composer's value has the file
  }
};
// Gradio may build the composer anew, and it is not there yet: what holds it is watched.
new MutationObserver(onPictures).observe(element.closest("#ee-chat-column"), { childList: true, subtree: true });

// The last pictures of a prompt are those of its question; the others are of earlier turns.
EagleEye.runs.listeners.add((run, what) => {
  if (what === "cleared") used.hidden = true;
  if (what !== "grown" || !sent || run.number <= before) return;
  const images = run.trace.images;
  if (images.length === 0) return;
  const own = images.slice(-sent.pictures.length);
  const shown = sent.pictures.map((picture) => picture.num_tokens);
  const same = own.length === shown.length && own.every((image, i) => image.num_tokens === shown[i]);
  const total = own.reduce((sum, image) => sum + image.num_tokens, 0);
  const cached = own.every((image) => image.is_cached) ? " · cached" : "";
  used.textContent = same
    ? `✓ ${total.toLocaleString("en")} image tokens used, as shown${cached}`
    : `${total.toLocaleString("en")} image tokens used, not ${shown.join(" + ")} as shown${cached}`;
  used.dataset.same = String(same);
  used.hidden = false;
  sent = null;
});

watch("value", draw);
draw();
