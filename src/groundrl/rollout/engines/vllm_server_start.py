"""Runs vLLM's OpenAI-compatible server in a process that ends with the one that started it (on Linux)."""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys

SERVER = "vllm.entrypoints.openai.api_server"
PR_SET_PDEATHSIG = 1


def main() -> None:
    """Arguments: the starter's process id, then those of the server."""
    starter = int(sys.argv.pop(1))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM))
    if os.getppid() != starter:  # it ended before it could be watched
        sys.exit(1)
    runpy.run_module(SERVER, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
