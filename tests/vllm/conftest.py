"""One vLLM engine for all tests here; they need the second environment (make setup-vllm)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from groundrl.rollout.engines.vllm import installed

if TYPE_CHECKING:
    from groundrl.models.load import Policy
    from groundrl.rollout.engines.vllm_engine import VllmEngine


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = pytest.mark.skip(reason="vLLM is not installed here: make setup-vllm, then make test-vllm")
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.vllm)
            if not installed():
                item.add_marker(missing)


@pytest.fixture(scope="session")
def only_engine(loaded_policy: Policy) -> Iterator[VllmEngine]:
    from groundrl.config.compose import compose_run

    config = compose_run(["scale=tiny", "rollout/engine=vllm", "rollout.engine.max_model_len=512"])
    engine = config.rollout.engine.build(loaded_policy.model, loaded_policy.processor)
    yield engine
    engine.close()


@pytest.fixture
def engine(only_engine: VllmEngine, loaded_policy: Policy) -> Iterator[VllmEngine]:
    """The engine with the shipped weights, given back with them."""
    yield only_engine
    only_engine.through_files = False
    only_engine.sync_weights(loaded_policy.model)
