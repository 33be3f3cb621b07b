"""Whether a run counts for claims: they must have been committed before it."""

from __future__ import annotations

import yaml

from groundrl.errors import ConfigError
from groundrl.reporting.claims.history import History
from groundrl.reporting.experiments.claim_file import Claims, read_claims
from groundrl.reporting.experiments.node import Node
from groundrl.reporting.tables.runs import plain_commit
from groundrl.sweeping.results import ResultRow


class Counting:
    """The rules for the claims of experiment `id`, as they stand today."""

    def __init__(self, claims: Claims, id: str, history: History) -> None:
        self._claims, self._id, self._history = claims, id, history
        self._path = f"experiments/{id}/claims.yaml"

    def refusal(self, run: ResultRow) -> str | None:
        """Why a run does not count; None if it does.

        The claims file as it was in the run's commit must ask what it asks today (its words may differ); a
        run of this experiment must also have seen it without uncommitted changes. A run that trained must
        have trained for the number of steps that the claims name.
        """
        commit = plain_commit(run.commit)
        if run.id == self._id:
            if run.claims_commit is None:
                return "the claims were not committed when it ran"
            if not self._history.comes_after(commit, run.claims_commit):
                return f"its commit {commit[:10]} does not come after the claims' {run.claims_commit[:10]}"
        asked = self._asked(commit)
        if asked is None:
            return f"its commit {commit[:10]} has no claims that can be read"
        if asked != self._claims.question():
            return f"the claims asked something else at its commit {commit[:10]}"
        if run.after and run.steps != self._claims.steps:
            return f"it trained {run.steps} steps, the claims say {self._claims.steps}"
        return None

    def _asked(self, commit: str) -> object | None:
        text = self._history.text_at(commit, self._path)
        if text is None:
            return None
        try:
            node = Node(file=self._path, key="", value=yaml.safe_load(text))
            return read_claims(node, self._id).question()
        except (ConfigError, yaml.YAMLError):
            return None
