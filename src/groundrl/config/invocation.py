"""How a run was asked for, as far as its name and its record need it."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import Any

import yaml


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """overrides: this job's words from the command line; experiment: the preset's name, or None;
    resolved: the resolved configuration as plain values; multirun: one of several jobs."""

    overrides: tuple[str, ...]
    experiment: str | None
    resolved: dict[str, Any] = field(default_factory=dict[str, Any])
    multirun: bool = False

    @property
    def config_hash(self) -> str:
        """Hash of all settings that decide the result: where files go does not."""
        kept = {key: value for key, value in self.resolved.items() if key not in ("paths", "resume")}
        return hashlib.sha256(yaml.safe_dump(kept, sort_keys=True).encode()).hexdigest()

    def folder_name(self, seed: int) -> str:
        """`<axis=value,...>-s<seed>-<hash8>`: readable, safe on any file system, unique to the settings."""
        skipped = ("seed=", "paths.", "resume=", "experiment=")
        axes = [word.lstrip("+~") for word in self.overrides if not word.lstrip("+~").startswith(skipped)]
        text = ",".join(sorted(axes)) or "default"
        text = re.sub(r"[^A-Za-z0-9=.,_-]+", "_", text)[:100]
        return f"{text}-s{seed}-{self.config_hash[:8]}"
