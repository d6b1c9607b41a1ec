"""Names for the content of full KV blocks, chained so that equal names mean equal prompts from the first token on."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence


def extend_block_keys(keys: list[bytes], tokens: Sequence[int], block_size: int, *, salt: bytes = b"") -> None:
    """Append to `keys` the SHA-256 key of each further full block of `tokens`.

    The key of a block covers its tokens, the key of the block before it, and the salt; a block's keys and values depend
    on exactly these. SHA-256 makes a false hit (another user's text) a matter of 2**-128, so tokens are not compared.
    """
    for start in range(len(keys) * block_size, len(tokens) - block_size + 1, block_size):
        parent = keys[-1] if keys else hashlib.sha256(b"root:" + salt).digest()
        content = array("q", tokens[start : start + block_size]).tobytes()
        keys.append(hashlib.sha256(parent + content).digest())
