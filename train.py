"""The single entry: compose the words on the command line, validate, freeze, run.

    python train.py reward=odlength model=qwen7b
    python train.py -m reward=ap50,ap,odlength seed=0,1,2
    python train.py resume=RUN_DIR
"""

import sys
from pathlib import Path

import hydra
from omegaconf import DictConfig

from groundrl.config.entry import freeze, guard, prepare
from groundrl.config.registry import load_all


@hydra.main(version_base="1.3", config_path=str(Path(__file__).parent / "conf"), config_name="config")
def main(cfg: DictConfig) -> None:
    sys.exit(guard(job, cfg))


def job(cfg: DictConfig) -> int:
    config, invocation = freeze(cfg)
    from groundrl.training.run import run  # imports torch, so only once the settings are known to be good

    outcome = run(config, invocation)
    if outcome.folder is not None:
        from groundrl.reporting.report import write_report

        print(f"report      {write_report(outcome.folder)}")
    return outcome.code


if __name__ == "__main__":
    prepare()
    load_all()
    sys.exit(guard(main))
