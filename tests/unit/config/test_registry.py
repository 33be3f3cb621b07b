"""Components are found by their decorator, without a list."""

from __future__ import annotations

from dataclasses import dataclass

from hydra.core.config_store import ConfigStore

from groundrl.config.registry import config_modules, is_base, load_all, register


def test_modules_with_configs_are_found_by_what_they_hold() -> None:
    found = config_modules()
    for name in ("run_config", "rewards.odlength", "rollout.engines.hf", "learner.algorithms", "data.shapes"):
        assert f"groundrl.{name}" in found
    assert "groundrl.config.registry" not in found
    assert "groundrl.learner.learner" not in found


def test_every_registered_schema_is_in_hydras_store() -> None:
    load_all()
    schema = ConfigStore.instance().list("schema")
    assert {"algorithm", "model", "reward", "rollout", "tracker"} <= set(schema)


def test_a_base_is_a_class_of_which_only_children_are_options() -> None:
    @dataclass
    class Base:
        pass

    @dataclass
    class Lone:
        pass

    @register("test", "child")
    @dataclass
    class Child(Base):
        pass

    assert is_base(Base)
    assert not is_base(Child)
    assert not is_base(Lone)
