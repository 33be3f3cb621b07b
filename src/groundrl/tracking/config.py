"""The `tracker` group: where a run's numbers go besides its own folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from groundrl.config.registry import register
from groundrl.errors import ConfigError
from groundrl.tracking.base import Tracker
from groundrl.tracking.composite import RunTracker
from groundrl.tracking.gallery import Gallery
from groundrl.tracking.jsonl import JsonlTracker
from groundrl.tracking.pictures import PictureBudget


class WandbMode(Enum):
    """auto: online when WANDB_API_KEY is set, else offline."""

    auto = "auto"
    online = "online"
    offline = "offline"


@dataclass(kw_only=True, slots=True)
class TrackerConfig:
    """Settings all trackers share: `metrics.jsonl` and the gallery are always written.

    gallery_samples      held-out samples that are shown at every evaluation
    gallery_train_every  steps between training groups that are shown, 0 for none
    """

    gallery_samples: int = 8
    gallery_train_every: int = 20

    def __post_init__(self) -> None:
        for key in ("gallery_samples", "gallery_train_every"):
            if getattr(self, key) < 0:
                raise ConfigError(key, "must not be negative", got=getattr(self, key), todo="use 0 for none")

    def build(
        self,
        *,
        run_dir: Path,
        run_name: str,
        config_dict: Mapping[str, Any],
        preset: str | None = None,
        resume_state: Mapping[str, Any] | None = None,
    ) -> Tracker:
        """The run's tracker; `preset` is the experiment it belongs to.

        `resume_state` is an earlier `state()`, with the run's last step as "final_step"; metrics of steps
        after its "step" are dropped (-1 drops all). None starts a new record and raises `RunFolderError`
        if the folder has one.
        """
        record = JsonlTracker(run_dir, after=_last_step(resume_state), final=_final_step(resume_state))
        others = self.build_others(run_dir, run_name, config_dict, preset, resume_state)
        sent = int((resume_state or {}).get("pictures", 0))
        return RunTracker(record, others, PictureBudget(self.most_pictures(), sent))

    def build_gallery(self, run_dir: Path, resume_state: Mapping[str, Any] | None = None) -> Gallery:
        """The writer of `gallery.jsonl` and `images/`, cut at the same step as the metrics."""
        return Gallery(
            run_dir,
            samples=self.gallery_samples,
            train_every=self.gallery_train_every,
            after=_last_step(resume_state),
            final=_final_step(resume_state),
        )

    def build_others(
        self,
        run_dir: Path,
        run_name: str,
        config_dict: Mapping[str, Any],
        preset: str | None,
        resume_state: Mapping[str, Any] | None,
    ) -> dict[str, Tracker]:
        """Trackers besides `metrics.jsonl`, by the name under which their state is kept."""
        return {}

    def most_pictures(self) -> int:
        """How many answers with their images such trackers are given in all."""
        return 0


@dataclass(kw_only=True, slots=True)
class ServiceConfig(TrackerConfig):
    """Settings of trackers that show pictures elsewhere.

    pictures  answers of the gallery that are sent with their image, in all of the run; the last evaluation's
              are among them. 0 for none
    """

    pictures: int = 200

    def __post_init__(self) -> None:
        TrackerConfig.__post_init__(self)
        if self.pictures < 0:
            raise ConfigError("pictures", "must not be negative", got=self.pictures, todo="use 0 for none")

    def most_pictures(self) -> int:
        return self.pictures


@register("tracker", "jsonl")
@dataclass(kw_only=True, slots=True)
class JsonlConfig(TrackerConfig):
    """Only the run folder."""


@register("tracker", "wandb")
@dataclass(kw_only=True, slots=True)
class WandbConfig(ServiceConfig):
    """Also Weights & Biases. The key is read from WANDB_API_KEY by W&B and is never a setting.

    group  runs that belong together; null: those of one preset (`experiment=NAME`)
    """

    project: str = "groundrl"
    entity: str | None = None
    mode: WandbMode = WandbMode.auto
    group: str | None = None
    tags: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        ServiceConfig.__post_init__(self)
        if not self.project:
            raise ConfigError("project", "must not be empty", got=self.project, todo="name a W&B project")

    def build_others(
        self,
        run_dir: Path,
        run_name: str,
        config_dict: Mapping[str, Any],
        preset: str | None,
        resume_state: Mapping[str, Any] | None,
    ) -> dict[str, Tracker]:
        from groundrl.tracking.wandb_tracker import WandbTracker

        tracker = WandbTracker(
            run_dir,
            run_name,
            config_dict,
            project=self.project,
            entity=self.entity,
            mode=self.mode.value,
            group=self.group or preset,
            tags=self.tags,
            run_id=((resume_state or {}).get("wandb") or {}).get("id"),
        )
        return {"wandb": tracker}


@register("tracker", "tensorboard")
@dataclass(kw_only=True, slots=True)
class TensorboardConfig(ServiceConfig):
    """Also TensorBoard event files under `tensorboard/` in the run folder."""

    def build_others(
        self,
        run_dir: Path,
        run_name: str,
        config_dict: Mapping[str, Any],
        preset: str | None,
        resume_state: Mapping[str, Any] | None,
    ) -> dict[str, Tracker]:
        from groundrl.tracking.tensorboard_tracker import TensorboardTracker

        return {"tensorboard": TensorboardTracker(run_dir, after=_last_step(resume_state))}


def _final_step(resume_state: Mapping[str, Any] | None) -> int | None:
    return (resume_state or {}).get("final_step")


def _last_step(resume_state: Mapping[str, Any] | None) -> int | None:
    return None if resume_state is None else int(resume_state.get("step", -1))
