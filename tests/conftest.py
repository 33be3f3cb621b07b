"""Fixtures that several folders of tests share. torch is imported only by the tests that ask for it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from groundrl.models.load import Policy
    from groundrl.run_config import RunConfig
    from groundrl.types import Sample


@pytest.fixture(scope="session")
def tiny_config() -> RunConfig:
    """The default run: tiny model, referring expressions."""
    from groundrl.config.compose import compose_run

    return compose_run(["scale=tiny"])


@pytest.fixture(scope="session")
def loaded_policy(tiny_config: RunConfig) -> Policy:
    import torch

    from groundrl.models.load import load_policy

    torch.set_num_threads(1)
    policy = load_policy(tiny_config.model)
    policy.model.eval()
    return policy


@pytest.fixture
def tiny_policy(loaded_policy: Policy) -> Iterator[Policy]:
    """The shipped tiny policy, shared by all tests; a test that changes its weights fails."""
    import torch

    before = torch.cat([p.detach().flatten() for p in loaded_policy.model.parameters()])
    yield loaded_policy
    loaded_policy.model.eval()
    after = torch.cat([p.detach().flatten() for p in loaded_policy.model.parameters()])
    assert torch.equal(before, after), "the test changed the shared policy; ask for fresh_policy"
    assert all(p.requires_grad for p in loaded_policy.model.parameters())


@pytest.fixture(scope="session")
def exact_policy(loaded_policy: Policy) -> Policy:
    """The tiny policy in float64, where a difference beyond 1e-6 is a fault and no rounding. Not to be
    changed."""
    return replace(loaded_policy, model=copy.deepcopy(loaded_policy.model).double())


@pytest.fixture
def fresh_policy(loaded_policy: Policy) -> Policy:
    """A copy of the tiny policy that a test may train."""
    return replace(loaded_policy, model=copy.deepcopy(loaded_policy.model))


@pytest.fixture(scope="session")
def rec_samples(tiny_config: RunConfig) -> list[Sample]:
    """48 held-out referring expressions."""
    from groundrl.data.base import Split

    source = tiny_config.dataset.build(Split.HELDOUT)
    return [source.sample(index) for index in range(48)]
