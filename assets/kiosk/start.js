// Where a visitor chooses: a card, a photo, a picture from a file; then a question about it.
const make = EagleEye.make;

export class Start {
  // `on`: card(number), picture(blob), question({question | text}), problem(sentence)
  constructor(screens, config, on) {
    this.start = screens.start;
    this.ask = screens.ask;
    this.config = config;
    this.on = on;
    this.preview = this.ask.querySelector("img");
    this.makeCards();
    this.makeFiles();
    this.makeQuestions();
  }

  makeCards() {
    const cards = this.config.cards.map((card, number) => {
      const button = make("button", "k-card");
      button.type = "button";
      if (card.picture) {
        const picture = make("img");
        picture.src = card.picture;
        picture.alt = "";
        button.append(picture);
      }
      button.append(make("span", "", card.question));
      button.addEventListener("click", () => this.on.card(number));
      return button;
    });
    this.start.querySelector(".k-cards").append(...cards);
    if (this.config.takes_pictures) return;
    this.start.querySelector("h1").textContent = "Pick a question";
    document.querySelectorAll(".k-again").forEach((again) => (again.textContent = "Another question"));
  }

  makeFiles() {
    const button = this.start.querySelector(".k-file-button");
    this.file = this.start.querySelector("input[type=file]");
    button.hidden = !this.config.takes_files;
    button.addEventListener("click", () => this.file.click());
    this.file.addEventListener("change", () => {
      const [picture] = this.file.files;
      if (!picture) return;
      if (picture.size > this.config.max_picture_bytes) {
        this.on.problem(`The picture is larger than ${this.config.max_picture_bytes >> 20} MB.`);
      } else this.on.picture(picture);
      this.file.value = "";
    });
  }

  makeQuestions() {
    const buttons = this.config.questions.map((text, number) => {
      const button = make("button", "k-primary", text);
      button.type = "button";
      button.addEventListener("click", () => this.on.question({ question: number }));
      return button;
    });
    this.ask.querySelector(".k-questions").append(...buttons);
    if (!this.config.free_text) return;
    this.form = this.makeForm();
    if (this.config.takes_pictures) this.ask.querySelector(".k-questions").after(this.form);
    else this.start.append(this.form);
  }

  makeForm() {
    this.field = make("input");
    Object.assign(this.field, {
      type: "text", autocomplete: "off", spellcheck: false, maxLength: this.config.max_question_characters,
      placeholder: "Or type your own question",
    });
    this.field.setAttribute("aria-label", "Your question");
    const form = make("form", "k-free", this.field, make("button", "", "Ask"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const text = this.field.value.trim();
      if (text) this.on.question({ text });
    });
    return form;
  }

  // Nothing of the last visitor stays.
  clear() {
    this.file.value = "";
    if (this.field) this.renewField();
    this.preview.removeAttribute("src");
  }

  // Another field, so that what was typed goes with the old one, from the browser's undo history too.
  renewField() {
    const fresh = this.field.cloneNode();
    fresh.value = "";
    this.field.replaceWith(fresh);
    this.field = fresh;
  }
}
