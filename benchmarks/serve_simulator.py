"""Does the virtual clock tell the truth? Settings predicted from others' measured steps, then really run; JSON on stdout.

    python benchmarks/serve_simulator.py [--requests N]

A random Llama of 21 million parameters serves mixed requests. The step times of decode-first at batch 4 and 32 teach
`MeasuredCost`; the simulator then predicts other sizes and policies, and the real engine shows how far off it was.
Needs torch.
"""

from __future__ import annotations

import argparse
import json
import random

import torch

from toprope.serve.batching.kv_cache import KvCache
from toprope.serve.batching.policies import make_policy
from toprope.serve.batching.request import Request, SamplingParams
from toprope.serve.batching.scheduler import Scheduler, SchedulerLimits
from toprope.serve.engine.engine import Engine
from toprope.serve.engine.engine_config import EngineConfig
from toprope.serve.kernels.choose_kernels import load_kernels
from toprope.serve.model.llama import Llama
from toprope.serve.model.llama_config import LlamaConfig
from toprope.serve.planning.simulator import simulate
from toprope.serve.planning.step_cost import MeasuredCost
from toprope.serve.planning.traffic import Arrival

CONFIG = LlamaConfig(vocab=8192, hidden=512, ffn=1408, layers=4, heads=8, kv_heads=8, head=64, context_tokens=1024)
TAUGHT_BY = ((4, "decode-first"), (32, "decode-first"))
SETTINGS = ((8, "decode-first"), (16, "prefill-first"), (24, "throughput"))


def random_model() -> Llama:
    generator = torch.Generator().manual_seed(0)

    def normal(outer: int, inner: int) -> torch.Tensor:
        return torch.randn((outer, inner), generator=generator) * inner**-0.5

    wide = CONFIG.heads * CONFIG.head
    weights = {"model.embed_tokens.weight": normal(CONFIG.vocab, CONFIG.hidden)}
    weights["lm_head.weight"] = normal(CONFIG.vocab, CONFIG.hidden)
    weights["model.norm.weight"] = torch.ones(CONFIG.hidden)
    for layer in range(CONFIG.layers):
        at = f"model.layers.{layer}."
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            weights[f"{at}self_attn.{name}.weight"] = normal(wide, CONFIG.hidden)
        for name in ("gate_proj", "up_proj"):
            weights[f"{at}mlp.{name}.weight"] = normal(CONFIG.ffn, CONFIG.hidden)
        weights[f"{at}mlp.down_proj.weight"] = normal(CONFIG.hidden, CONFIG.ffn)
        for name in ("input_layernorm", "post_attention_layernorm"):
            weights[f"{at}{name}.weight"] = torch.ones(CONFIG.hidden)
    return Llama(CONFIG, weights, load_kernels(torch.float32), max_tokens=512)


def limits(batch_size: int) -> SchedulerLimits:
    return SchedulerLimits(batch_size, 512, CONFIG.context_tokens)


def start(model: Llama, arrivals: list[Arrival], batch_size: int, policy: str) -> Engine:
    config = EngineConfig(kv_bytes=1 << 27, limits=limits(batch_size), policy=make_policy(policy), prefix_caching=False)
    engine = Engine.around(model, config)
    for number, arrival in enumerate(arrivals):
        prompt = [(7 * number + i) % CONFIG.vocab for i in range(arrival.prompt_tokens)]
        engine.scheduler.add(Request(f"r{number}", prompt, arrival.output_tokens, SamplingParams(temperature=0)))
    return engine


def measure(model: Llama, arrivals: list[Arrival], cost: MeasuredCost) -> tuple[dict[tuple[int, str], float], KvCache]:
    """Step seconds of each of `SETTINGS`; `cost` learns meanwhile from `TAUGHT_BY`.

    All engines take turns step by step, the teachers starting anew when done, so that whatever else the machine does
    meets all of them alike.
    """
    tested = {settings: start(model, arrivals, *settings) for settings in SETTINGS}
    teachers = {settings: start(model, arrivals, *settings) for settings in TAUGHT_BY}
    seconds = dict.fromkeys(SETTINGS, 0.0)
    cache = tested[SETTINGS[0]].scheduler.cache
    while any(engine.scheduler.has_work for engine in tested.values()):
        for settings, engine in tested.items():
            if engine.scheduler.has_work:
                seconds[settings] += engine.step().seconds
        for settings, engine in list(teachers.items()):
            report = engine.step()
            cost.observe(report.batch, report.seconds)
            if not engine.scheduler.has_work:
                teachers[settings] = start(model, arrivals, *settings)
    return seconds, cache


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=32)
    args = parser.parse_args()
    rng = random.Random(0)
    arrivals = [Arrival(0.0, rng.randint(16, 256), rng.randint(16, 96)) for _ in range(args.requests)]
    output_tokens = sum(arrival.output_tokens for arrival in arrivals)
    cost = MeasuredCost()
    seconds, cache = measure(random_model(), arrivals, cost)
    rows = []
    for (batch_size, policy), measured_s in seconds.items():
        virtual = KvCache(cache.device.block_count, cache.block_size, prefix_caching=False)
        result = simulate(Scheduler(virtual, limits(batch_size), make_policy(policy)), cost, arrivals)
        rows.append(
            {
                "name": f"{policy}, batch {batch_size}",
                "measured_tokens_per_s": round(output_tokens / measured_s),
                "predicted_tokens_per_s": round(result.output_tokens_per_s),
                "error": round(result.output_tokens_per_s * measured_s / output_tokens - 1, 3),
            }
        )
    print(
        json.dumps({"question": "simulated against measured throughput of the CPU engine", "settings": rows}, indent=2)
    )


if __name__ == "__main__":
    main()
