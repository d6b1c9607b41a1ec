"""Open a model: a folder with config.json and safetensors, or one GGUF file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from toprope.serve.model.bad_weights import BadWeights
from toprope.serve.model.gguf import ROPE_DIVISORS, GgufFile
from toprope.serve.model.llama_config import LlamaConfig


@dataclass(frozen=True, eq=False)
class ModelFiles:
    """What was found on disk; `gguf` is set when it all came from one GGUF file."""

    path: Path
    config: LlamaConfig
    tensors: Mapping[str, torch.Tensor]
    gguf: GgufFile | None = None


def open_model(path: str | Path) -> ModelFiles:
    """Read configuration and weights; raises `BadWeights` that names the file and what is wrong with it."""
    path = Path(path)
    if path.is_dir():
        return _open_folder(path)
    if not path.exists():
        raise BadWeights(f"{path}: no such file or folder")
    file = GgufFile(path)
    tensors = {name: torch.from_numpy(array) for name, array in file.tensors().items()}
    divisors = tuple(file.tensor(ROPE_DIVISORS).tolist()) if ROPE_DIVISORS in file.tensor_names() else ()
    config = LlamaConfig.from_gguf(
        file.metadata, tied_embeddings="lm_head.weight" not in tensors, rope_divisors=divisors
    )
    return ModelFiles(path, config, tensors, file)


def _open_folder(path: Path) -> ModelFiles:
    raw = read_json(path / "config.json")
    generation = path / "generation_config.json"
    if generation.exists() and (end := read_json(generation).get("eos_token_id")) is not None:
        raw["eos_token_id"] = end  # often more complete: it knows the end of a turn besides the end of a text
    config = LlamaConfig.from_hf(raw)
    index = path / "model.safetensors.index.json"
    names = sorted(set(read_json(index)["weight_map"].values())) if index.exists() else ["model.safetensors"]
    tensors: dict[str, torch.Tensor] = {}
    for name in names:
        tensors.update(_read_safetensors(path / name))
    return ModelFiles(path, config, tensors)


def _read_safetensors(path: Path) -> dict[str, torch.Tensor]:
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (OSError, SafetensorError, ValueError) as error:
        raise BadWeights(f"{path}: cannot be read: {error}") from None


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file of the model folder."""
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise BadWeights(f"{path}: cannot be read: {error}") from None
    if not isinstance(content, dict):
        raise BadWeights(f"{path}: holds {type(content).__name__}, expected an object")
    return content
