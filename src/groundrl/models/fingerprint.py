"""What a run starts from, as one short text: the weights and the tokenizer of its checkpoint."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

WHOLE_LIMIT = 64 * 2**20
"""Bytes of weights up to which they are hashed whole; reading these takes about a tenth of a second."""
MOST_HEADER = 100 * 2**20
"""Bytes a safetensors header may have."""

_TOKENIZER = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
    "merges.txt", "tokenizer.model", "chat_template.jinja", "chat_template.json",
)  # fmt: skip


def start_fingerprint(weights: Path, tokenizer: Path) -> str:
    """`sha256:HEX` over the safetensors files of one folder and the tokenizer files of another (or the same).

    Of weights beyond 64 MiB in all it is `sha256-headers:HEX`: of those files only name, size and header
    (names, types, shapes and places of the tensors) are read, which tells architectures apart but not two
    trainings of one. Names count without their folder, so that a checkpoint may be moved. Raises OSError.
    """
    shards = sorted(weights.glob("*.safetensors"))
    whole = sum(file.stat().st_size for file in shards) <= WHOLE_LIMIT
    texts = [tokenizer / name for name in _TOKENIZER if (tokenizer / name).is_file()]
    digest = hashlib.sha256()
    for file in shards:
        _add(digest, file, _content(file) if whole else _header(file))
    for file in texts:
        _add(digest, file, _content(file))
    return f"{'sha256' if whole else 'sha256-headers'}:{digest.hexdigest()}"


def _add(digest: hashlib._Hash, file: Path, blocks: Iterator[bytes]) -> None:
    """Name and size stand before the content, so that no two lists of files give the same bytes."""
    digest.update(f"{file.name}\0{file.stat().st_size}\0".encode("utf-8", "surrogateescape"))
    for block in blocks:
        digest.update(block)


def _content(file: Path) -> Iterator[bytes]:
    with file.open("rb") as stream:
        yield from iter(lambda: stream.read(1 << 20), b"")


def _header(file: Path) -> Iterator[bytes]:
    """The header of a safetensors file: its length in 8 bytes, little endian, and then JSON."""
    with file.open("rb") as stream:
        length = stream.read(8)
        yield length
        yield stream.read(min(int.from_bytes(length, "little"), MOST_HEADER))
