"""How the bundled demo base came about: pictures drawn, a small vision tower trained.

In: openly licensed emoji artwork and the weights of SmolLM2-135M-Instruct. Out: the
vision weights in `assets/bundled/`. The application only reads those; it never imports
anything from here but `composition`, which joins them with the language model.
"""
