"""`python -m groundrl.reporting RUN_DIR` makes the report of a run again."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from groundrl.errors import UserError
from groundrl.reporting.report import write_report


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the report and print its path. Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m groundrl.reporting", description="Make report.html again."
    )
    parser.add_argument("run_dir", type=Path, help="the folder of a run, with metrics.jsonl in it")
    options = parser.parse_args(arguments)
    try:
        path = write_report(options.run_dir)
    except UserError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"{options.run_dir}: the report cannot be written ({error.strerror})", file=sys.stderr)
        return 2
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
