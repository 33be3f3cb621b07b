"""The cells of a sweep at a scale: which settings each runs with, and under which key its result is known."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from groundrl.config.compose import compose_words
from groundrl.config.refusals import refusal
from groundrl.config.words import check_words, parted, quoted
from groundrl.errors import UserError
from groundrl.sweeping.key import config_key
from groundrl.sweeping.layout import Layout
from groundrl.sweeping.points import Point, points, word
from groundrl.sweeping.scale_file import NotTestable, Scale, read_scale
from groundrl.sweeping.sweep_file import SEED, Sweep, read_sweep


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One run of a sweep.

    axes           swept settings without the seed, as the sweep writes them (paper scale)
    words          settings that run, without the run folder
    twins          group to (option at paper scale, option that runs), where they differ
    key            of the resolved settings; empty when the cell cannot run
    steps          training steps, 0 without training
    start          folders of weights and tokenizer that the run begins with
    not_testable   why this scale has no answer; None when it has
    """

    id: str
    scale: str
    axes: dict[str, str]
    seed: int
    words: tuple[str, ...]
    twins: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    key: str = ""
    steps: int = 0
    start: tuple[str, str] = ("", "")
    not_testable: str | None = None

    @property
    def name(self) -> str:
        """`axis=value,axis=value seed 0`, for people."""
        return (
            f"{','.join(f'{axis}={value}' for axis, value in self.axes.items()) or self.id} seed {self.seed}"
        )

    @property
    def folder_name(self) -> str:
        """`<axis=value,...>-s<seed>-<key8>`, safe on any file system."""
        text = ",".join(f"{axis}={value}" for axis, value in self.axes.items()) or "run"
        return f"{re.sub(r'[^A-Za-z0-9=.,_-]+', '_', text)[:100]}-s{self.seed}-{self.key[:8]}"

    @property
    def command(self) -> str:
        """The line that runs this cell alone."""
        return f"python train.py {shlex.join(self.words)}"


def build_cells(
    layout: Layout, id: str, scale: str, *, seeds: int | None = None, extra: Sequence[str] = ()
) -> list[Cell]:
    """The cells of sweep `id` at `scale`, in the order of W&B.

    seeds  so many instead of the file's
    extra  words that change no result (tracker, paths.data), added to every cell

    Raises UserError naming the file and the key, or the cell whose words do not compose.
    """
    sweep = read_sweep(layout.sweep(id))
    if seeds is not None:
        sweep = sweep.with_seeds(seeds)
    scaled = read_scale(layout.scale(scale))
    made: dict[str, _Composed] = {}
    return [_cell(sweep, scaled, point, extra, made) for point in points(sweep)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Composed:
    """What all seeds of a point share."""

    words: tuple[str, ...]
    twins: dict[str, tuple[str, str]]
    config: DictConfig | None
    reason: str | None


def _cell(sweep: Sweep, scale: Scale, point: Point, extra: Sequence[str], made: dict[str, _Composed]) -> Cell:
    axes = {name: str(point[name]) for name in sweep.axes}
    seed = int(point.get(SEED, 0))
    given = tuple(word(name, value) for name, value in point.items() if name != SEED)
    shared = " ".join(given)
    if shared not in made:
        try:
            made[shared] = _composed(sweep.id, scale, given, extra)
        except (HydraException, OmegaConfBaseException) as error:
            raise UserError(f"{sweep.file}: cell {shared}: {refusal(error, given)}") from None
        except UserError as error:
            raise UserError(f"{sweep.file}: cell {shared}: {error}") from None
    own = made[shared]
    words = (*own.words, f"seed={seed}")
    where: dict[str, Any] = {"id": sweep.id, "scale": scale.name, "axes": axes, "seed": seed, "words": words}
    if own.config is None:
        return Cell(**where, twins=own.twins, not_testable=own.reason)
    own.config[SEED] = seed
    resolved: Any = OmegaConf.to_container(own.config, resolve=True, enum_to_str=True)
    model, steps = resolved["model"], int(resolved["algorithm"].get("num_steps", 0))
    start = (str(model["init_from"] or model["path"]), str(model["path"]))
    return Cell(**where, twins=own.twins, key=config_key(resolved), steps=steps, start=start)


def _composed(id: str, scale: Scale, given: tuple[str, ...], extra: Sequence[str]) -> _Composed:
    """Compose at paper scale, put twins in place of the options chosen there, compose again."""
    paper = _compose(given)
    chosen = {str(group): str(option) for group, option in paper.hydra.runtime.choices.items()}
    twins: dict[str, tuple[str, str]] = {}
    reasons: list[str] = []
    for group in scale.groups(id):
        if group not in chosen:
            continue
        twin = scale.twin(id, group, chosen[group])
        if isinstance(twin, NotTestable):
            reasons.append(f"{group}={chosen[group]}: {twin.reason}")
        elif twin != chosen[group]:
            twins[group] = (chosen[group], twin)
    words = [one for one in given if parted(one)[0] not in twins]
    words += [f"{group}={twin}" for group, (_, twin) in twins.items()]
    words += [*scale.words, *extra]
    if reasons:
        return _Composed(words=tuple(words), twins=twins, config=None, reason="; ".join(reasons))
    config = _compose(words) if words != list(given) else paper
    if "group" in config.tracker and config.tracker.group is None:
        words.append(f"tracker.group={id}")
        config = _compose(words)
    kept = OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])
    return _Composed(words=tuple(words), twins=twins, config=kept, reason=None)


def _compose(words: Sequence[str]) -> DictConfig:
    check_words(words)
    return compose_words([quoted(one) for one in words], with_hydra=True)
