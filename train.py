"""The single entry: compose the words on the command line, validate, freeze, run.

python train.py reward=odlength model=qwen7b
python train.py -m reward=ap50,ap,odlength seed=0,1,2
python train.py resume=RUN_DIR
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import hydra
from omegaconf import DictConfig

from groundrl.config.entry import Launcher
from groundrl.world import World

if TYPE_CHECKING:
    from groundrl.config.invocation import Invocation
    from groundrl.run_config import RunConfig


def ready(config: RunConfig) -> None:
    from groundrl.training.ready import check_ready  # imports torch, so only once the settings are good

    check_ready(config)


def job(config: RunConfig, invocation: Invocation) -> int:
    from groundrl.training.run import run

    outcome = run(config, invocation)
    if outcome.folder is not None and World.of().first:
        from groundrl.reporting.report import write_report

        print(f"report      {write_report(outcome.folder)}")
    return outcome.code


LAUNCHER = Launcher(job, ready)


@hydra.main(version_base="1.3", config_path=str(Path(__file__).parent / "conf"), config_name="config")
def main(cfg: DictConfig) -> None:
    LAUNCHER.run(cfg)


if __name__ == "__main__":
    sys.exit(LAUNCHER.start(main, sys.argv[1:]))
