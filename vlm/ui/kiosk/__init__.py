"""The kiosk: a screen for a booth, without Gradio (docs/kiosk.md)."""
