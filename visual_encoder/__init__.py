"""Image in, features out: the visual encoder of Qwen2.5-VL behind one interface.

`ImagePreprocessor` turns pictures into `ImagePatches` inside `ImageTokenLimits`; an engine made by
`create_encoder` turns those into `VisionFeatures`. This package never sees a token id.
"""

from visual_encoder.checkpoint import load_tower, load_vision_config
from visual_encoder.engines import (
    EngineChoice,
    choose_engines,
    create_encoder,
    missing_engines,
    open_built,
)
from visual_encoder.errors import (
    CheckpointError,
    EngineBuildFailed,
    EngineOutdated,
    EngineUnavailable,
    ImageRefused,
    InvalidLimits,
    VisualEncoderError,
)
from visual_encoder.feature_cache import CachingEncoder, FeatureCache
from visual_encoder.image_loading import ImageSource, load_image
from visual_encoder.preprocess import ImagePreprocessor
from visual_encoder.resize_plan import ResizePlan, plan_resizes
from visual_encoder.types import (
    EncoderInfo,
    ImagePatches,
    ImageTokenLimits,
    VisionConfig,
    VisionFeatures,
    VisualEncoder,
)

__all__ = [
    "CachingEncoder",
    "CheckpointError",
    "EncoderInfo",
    "EngineBuildFailed",
    "EngineChoice",
    "EngineOutdated",
    "EngineUnavailable",
    "FeatureCache",
    "ImagePatches",
    "ImagePreprocessor",
    "ImageRefused",
    "ImageSource",
    "ImageTokenLimits",
    "InvalidLimits",
    "ResizePlan",
    "VisionConfig",
    "VisionFeatures",
    "VisualEncoder",
    "VisualEncoderError",
    "choose_engines",
    "create_encoder",
    "load_image",
    "load_tower",
    "load_vision_config",
    "missing_engines",
    "open_built",
    "plan_resizes",
]
