"""The families that exist. One is read from the checkpoint's config (`model_type`), never from its path."""

from __future__ import annotations

from groundrl.errors import UserError
from groundrl.models.families.declaration import Family
from groundrl.models.families.internvl3 import INTERNVL3
from groundrl.models.families.qwen2_5_vl import QWEN25_VL
from groundrl.models.families.qwen2_vl import QWEN2_VL
from groundrl.models.families.qwen3_5 import QWEN35
from groundrl.models.families.qwen3_vl import QWEN3_VL

__all__ = ["FAMILIES", "QWEN25_VL", "Family", "family_of"]

FAMILIES: dict[str, Family] = {
    family.model_type: family for family in (QWEN2_VL, QWEN25_VL, QWEN3_VL, QWEN35, INTERNVL3)
}


def family_of(model_type: str, where: str) -> Family:
    """The family that a checkpoint's `model_type` names."""
    if model_type not in FAMILIES:
        raise UserError(
            f"{where}: model_type {model_type!r} is not a known family; known: {', '.join(sorted(FAMILIES))}"
        )
    return FAMILIES[model_type]
