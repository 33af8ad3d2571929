"""What a screen must offer to the eye, the thumb and the reader, whatever is shown on it."""

from __future__ import annotations

import re

from playwright.sync_api import Page


def small_targets(page: Page) -> list[str]:
    """Controls in sight that are smaller than a thumb."""
    found = []
    for button in page.locator("button:visible, input:visible").all():
        box = button.bounding_box()
        if box and (box["height"] < 48 or box["width"] < 48):
            found.append(f"{button.evaluate('(one) => one.className || one.type')}: {box}")
    return found


def nameless(page: Page) -> list[str]:
    kinds = "button|textbox|slider|checkbox|radio|spinbutton|img|dialog"
    # The drawing within a button with a name needs none.
    snapshot = re.sub(
        r'(- button ".+":)\n\s*- img$', r"\1", page.locator("body").aria_snapshot(), flags=re.M
    )
    return re.findall(rf"^\s*- (?:{kinds})(?::|$)", snapshot, re.M)


def scrolls_sideways(page: Page) -> bool:
    wide: bool = page.evaluate(
        "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    )
    return wide


def poor_contrast(page: Page) -> list[str]:
    """Texts in sight below WCAG's 4.5 (3 for large type) against what is painted behind them."""
    found: list[str] = page.evaluate(CONTRAST)
    return found


CONTRAST = """() => {
    const brush = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    const bytes = (colour) => {
        brush.clearRect(0, 0, 1, 1);
        brush.fillStyle = colour;
        brush.fillRect(0, 0, 1, 1);
        return [...brush.getImageData(0, 0, 1, 1).data];
    };
    const behind = (element) => {
        const layers = [];
        for (let at = element; at; at = at.parentElement) {
            layers.push(bytes(getComputedStyle(at).backgroundColor));
            if (layers.at(-1)[3] === 255) break;
        }
        const over = (below, [...layer]) => {
            const share = layer.pop() / 255;
            return layer.map((value, place) => value * share + below[place] * (1 - share));
        };
        return layers.reverse().reduce(over, [255, 255, 255]);
    };
    const light = (rgb) => {
        const part = (v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
        return 0.2126 * part(rgb[0]) + 0.7152 * part(rgb[1]) + 0.0722 * part(rgb[2]);
    };
    const bad = [];
    for (const element of document.querySelectorAll("body *")) {
        const texts = [...element.childNodes].filter((one) => one.nodeType === 3);
        const words = texts.filter((one) => one.data.trim());
        const look = { opacityProperty: true, visibilityProperty: true };
        if (!words.length || !element.checkVisibility(look) || element.disabled) continue;
        const style = getComputedStyle(element);
        const colour = element instanceof SVGElement ? style.fill : style.color;
        const lights = [light(bytes(colour)), light(behind(element))];
        const [a, b] = lights.sort((one, other) => one - other);
        const size = parseFloat(style.fontSize);
        const isLarge = size >= 24 || (size >= 18.66 && style.fontWeight >= 600);
        const ratio = (b + 0.05) / (a + 0.05);
        if (ratio < (isLarge ? 3 : 4.5)) bad.push(`${ratio.toFixed(2)}: ${words[0].data.trim()}`);
    }
    return bad;
}"""
