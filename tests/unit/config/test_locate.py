"""From a structured node to dataclasses, every error at its full key."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue

from groundrl.config.locate import located, unknown_setting
from groundrl.config.registry import register
from groundrl.errors import ConfigError


@dataclass
class Inner:
    width: int = 1

    def __post_init__(self) -> None:
        if self.width < 1:
            raise ConfigError("width", "must be >= 1", got=self.width, todo="raise it")


@dataclass
class Empty:
    pass


@dataclass
class Outer:
    inner: Inner = field(default_factory=Inner)
    empty: Empty = field(default_factory=Empty)
    named: dict[str, Inner] = field(default_factory=dict)
    numbers: list[int] = field(default_factory=lambda: [1])
    path: str = "x"


@dataclass
class Base:
    pass


@dataclass
class Whole:
    part: Base = field(default_factory=Base)


def node(**values: Any) -> DictConfig:
    made = OmegaConf.merge(OmegaConf.structured(Outer), values)
    assert isinstance(made, DictConfig)
    return made


def test_dataclasses_all_the_way_down() -> None:
    made = located(node(named={"a": {"width": 3}}, numbers=[2, 3]))
    assert made == Outer(named={"a": Inner(3)}, numbers=[2, 3])
    assert type(made.empty) is Empty
    assert type(made.numbers) is list


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"inner": {"width": 0}}, "inner.width: must be >= 1, got 0; raise it"),
        ({"named": {"a": {"width": -2}}}, "named.a.width: must be >= 1, got -2; raise it"),
    ],
)
def test_a_refused_value_is_named_by_its_full_key(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        located(node(**values))
    assert str(error.value) == message


def test_added_and_removed_fields_are_refused() -> None:
    cfg = node()
    OmegaConf.update(cfg, "inner.widht", 3, force_add=True)
    with pytest.raises(ConfigError) as error:
        located(cfg)
    assert str(error.value) == "inner.widht: no such setting; did you mean width? settings there: width"
    cfg = OmegaConf.structured(Outer)
    del cfg.__dict__["_content"]["path"]
    with pytest.raises(ConfigError) as error:
        located(cfg)
    assert str(error.value) == "path: cannot be removed; write path=VALUE"


def test_a_missing_value_is_not_taken_for_text() -> None:
    cfg = node()
    cfg.path = "???"
    with pytest.raises(MissingMandatoryValue):
        located(cfg)


def test_a_base_in_place_of_an_option_is_refused() -> None:
    cfg = OmegaConf.structured(Whole)
    assert type(located(cfg).part) is Base

    @register("test/locate", "kind")
    @dataclass
    class Option(Base):
        pass

    with pytest.raises(ConfigError) as error:
        located(cfg)
    assert str(error.value) == "part: no option is chosen; choose one: part=OPTION"
    cfg.part = OmegaConf.structured(Option)
    assert type(located(cfg).part) is Option


def test_unknown_setting_without_names() -> None:
    assert str(unknown_setting("a.b", ())) == "a.b: no such setting; see python train.py --help"
