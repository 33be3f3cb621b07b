"""`--help`: the words that can be written, and what they change.

Hydra's own help lists every schema group beside the groups that people choose from, and takes seconds.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from omegaconf import OmegaConf

from groundrl.config.compose import compose_words
from groundrl.config.repo import groups

HEADER = """\
GroundRL: reinforcement learning of vision-language models that must ground what they say.

  python train.py                                       tiny model, synthetic shapes, minutes on a CPU
  python train.py reward=odlength model=qwen7b          an open-vocabulary detection run
  python train.py -m reward=ap50,ap,odlength seed=0,1,2 one run per combination
  python train.py resume=RUN_DIR                        go on with an interrupted run
  python train.py debug=plan model=qwen7b               parameters and memory, without weights"""

FOOTER = """\
--cfg job --resolve prints the settings with all references filled in (make show OVERRIDES="...").
Other flags: -m (sweep), --info, --hydra-help."""

WIDTH = 20
COLUMNS = 110


def help_text(words: Sequence[str]) -> str:
    """Groups with the option that is chosen now marked, and the settings they lead to. Raises Hydra's
    errors and ConfigError on words that do not compose."""
    cfg = compose_words(words, with_hydra=True)
    chosen = {str(group): str(option) for group, option in cfg.hydra.runtime.choices.items()}
    settings = OmegaConf.to_yaml(OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"]))
    listed = [line for group in groups() for line in _listed(group, chosen.get(group))]
    return "\n".join(
        [
            HEADER,
            "",
            "Groups, chosen with GROUP=OPTION (* is chosen now):",
            *listed,
            "",
            "Settings, changed with KEY=VALUE:",
            *(f"  {line}" for line in settings.splitlines()),
            "",
            FOOTER,
        ]
    )


def _listed(group: str, chosen: str | None) -> list[str]:
    """A group's line, continued below its options where there are many."""
    options = ", ".join(f"{name}*" if name == chosen else name for name in groups()[group])
    return textwrap.wrap(
        options,
        width=COLUMNS,
        initial_indent=f"  {group:<{WIDTH}} ",
        subsequent_indent=" " * (WIDTH + 3),
        break_on_hyphens=False,
    )
