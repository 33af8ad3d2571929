// The cards of the empty chat: choosing one asks its question at once.
element.addEventListener("click", (event) => {
  const card = event.target.closest("[data-example]");
  if (card) trigger("pick", { example: Number(card.dataset.example) });
});
