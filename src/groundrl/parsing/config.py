"""What a user may choose about parsing; it holds for rewards and evaluation alike."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(kw_only=True, slots=True)
class ParsingConfig:
    """salvage: keep the complete leading items of a list of boxes or points that was cut or is broken. The
    answer then has status `salvaged`, and its broken rest counts as one refused item."""

    salvage: bool = False
