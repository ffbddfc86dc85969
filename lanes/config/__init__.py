"""The configuration: the model, the reader of `lanes.toml` with its checks, and deployments."""

from lanes.config.model import LanesConfig
from lanes.config.settings import (
    MAX_RECEIVES,
    VISIBILITY_FACTOR,
    ConsumerSettings,
    EngineName,
    Lane,
    OnExhausted,
    OutboxSettings,
    Overlap,
    Policy,
    Schedule,
)

__all__ = [
    "MAX_RECEIVES",
    "VISIBILITY_FACTOR",
    "ConsumerSettings",
    "EngineName",
    "Lane",
    "LanesConfig",
    "OnExhausted",
    "OutboxSettings",
    "Overlap",
    "Policy",
    "Schedule",
]
