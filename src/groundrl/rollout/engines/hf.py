"""`rollout/engine=hf`: batched sampling on the training model itself, no second copy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from groundrl.config.registry import register
from groundrl.rollout.engines.base import EngineConfig

if TYPE_CHECKING:
    from groundrl.rollout.engines.hf_engine import HFEngine


@register("rollout/engine", "hf")
@dataclass(kw_only=True, slots=True)
class HFEngineConfig(EngineConfig):
    """Settings of the Hugging Face engine."""

    chooses: ClassVar[bool] = True

    def copy_parts(self, processes: int) -> int:
        """A process of several samples with a whole copy, as its own model is sharded."""
        return 1 if processes > 1 else 0

    def build(self, model: Any, processor: Any) -> HFEngine:
        from groundrl.rollout.engines.hf_engine import HFEngine

        return HFEngine(model, processor, max_batch=self.max_batch)
