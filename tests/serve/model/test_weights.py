"""Reading model files, whole and damaged."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
gguf = pytest.importorskip("gguf")

from tests.serve.tiny_llama import CONFIG, random_weights, save_model  # noqa: E402
from toprope.serve.model.bad_weights import BadWeights  # noqa: E402
from toprope.serve.model.gguf import GgufFile  # noqa: E402
from toprope.serve.model.weights import open_model  # noqa: E402

pytestmark = pytest.mark.torch
GGUF_NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output", "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}  # fmt: skip


def gguf_name(name: str) -> str:
    stem = name.removesuffix(".weight")
    if stem.startswith("model.layers."):
        layer, _, rest = stem.removeprefix("model.layers.").partition(".")
        return f"blk.{layer}.{GGUF_NAMES[rest]}.weight"
    return f"{GGUF_NAMES[stem]}.weight"


def save_gguf(path: Path, weights: dict[str, torch.Tensor], kind: str = "F32") -> Path:
    """The tiny model as llama.cpp's converter would write it: query and key pairs become neighbours."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(CONFIG.context_tokens)
    writer.add_embedding_length(CONFIG.hidden)
    writer.add_block_count(CONFIG.layers)
    writer.add_feed_forward_length(CONFIG.ffn)
    writer.add_head_count(CONFIG.heads)
    writer.add_head_count_kv(CONFIG.kv_heads)
    writer.add_layer_norm_rms_eps(CONFIG.norm_epsilon)
    writer.add_rope_freq_base(CONFIG.rope_base)
    writer.add_vocab_size(CONFIG.vocab)
    writer.add_eos_token_id(256)
    for name, tensor in weights.items():
        data = tensor.numpy()
        for part, heads in (("q_proj", CONFIG.heads), ("k_proj", CONFIG.kv_heads)):
            if part in name:
                data = data.reshape(heads, 2, -1, data.shape[1]).swapaxes(1, 2).reshape(data.shape)
        form = gguf.GGMLQuantizationType[kind] if data.ndim == 2 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(gguf_name(name), gguf.quants.quantize(np.ascontiguousarray(data), form), raw_dtype=form)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_safetensors_folder(tmp_path: Path) -> None:
    files = open_model(save_model(tmp_path / "m"))
    assert files.config == CONFIG
    assert torch.equal(files.tensors["model.norm.weight"], random_weights(CONFIG)["model.norm.weight"])


def test_generation_config_knows_more_end_tokens(tmp_path: Path) -> None:
    folder = save_model(tmp_path / "m")
    (folder / "generation_config.json").write_text('{"eos_token_id": [256, 260]}')
    assert open_model(folder).config.end_tokens == {256, 260}


def test_gguf_equals_safetensors(tmp_path: Path) -> None:
    weights = random_weights(CONFIG)
    files = open_model(save_gguf(tmp_path / "m.gguf", weights))
    assert {k: v for k, v in vars(files.config).items() if k != "norm_epsilon"} == {
        k: v for k, v in vars(CONFIG).items() if k != "norm_epsilon"
    }
    assert files.config.norm_epsilon == pytest.approx(CONFIG.norm_epsilon)
    assert files.tensors.keys() == weights.keys()
    for name, tensor in weights.items():
        assert torch.equal(files.tensors[name], tensor), name


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q4_0", "Q4_1", "Q8_0"])
def test_dequantised_tensors_equal_the_reference(tmp_path: Path, kind: str) -> None:
    path = save_gguf(tmp_path / "m.gguf", random_weights(CONFIG), kind)
    ours, theirs = GgufFile(path), gguf.GGUFReader(path)
    assert {t.tensor_type.name for t in theirs.tensors} == {"F32", kind}
    for tensor in theirs.tensors:
        expected = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        np.testing.assert_array_equal(ours.tensor(tensor.name), expected, err_msg=tensor.name)


def test_stretched_rotations_and_unknown_tensors_of_gguf_files(tmp_path: Path) -> None:
    weights = random_weights(CONFIG)
    GGUF_NAMES["rope_freqs"] = "rope_freqs"
    path = save_gguf(tmp_path / "m.gguf", {**weights, "rope_freqs.weight": torch.linspace(1, 8, CONFIG.head // 2)})
    config = open_model(path).config
    plain, stretched = CONFIG.rotations(9)[1][:, -1], config.rotations(9)[1][:, -1]
    torch.testing.assert_close(torch.asin(stretched) * 8, torch.asin(plain))
    GGUF_NAMES["odd"] = "blk.0.ffn_gate_inp"
    with pytest.raises(BadWeights, match=r"ffn_gate_inp.*no model that is served"):
        open_model(save_gguf(tmp_path / "odd.gguf", {**weights, "odd.weight": torch.ones(16)}))


def test_a_format_that_is_not_read_is_named(tmp_path: Path) -> None:
    path = save_gguf(tmp_path / "m.gguf", {"lm_head.weight": torch.randn(32, 64)}, "Q5_0")
    with pytest.raises(BadWeights, match=r"output\.weight.*format number 6.*Q4_0"):
        GgufFile(path).tensors()


def test_damaged_gguf_files_are_refused_and_nothing_else_happens(tmp_path: Path) -> None:
    good = save_gguf(tmp_path / "good.gguf", random_weights(CONFIG), "Q8_0").read_bytes()
    bad, chance = tmp_path / "bad.gguf", random.Random(5)
    for length in [0, 3, 4, 20, 100, 700, len(good) // 2, len(good) - 40]:
        bad.write_bytes(good[:length])
        with pytest.raises(BadWeights, match=r"bad\.gguf"):
            open_model(bad)
    refused = 0
    for _ in range(200):  # flipped bytes in the header: an error of ours, or harmless
        damaged = bytearray(good)
        for _ in range(3):
            damaged[chance.randrange(1500)] = chance.randrange(256)
        bad.write_bytes(damaged)
        try:
            open_model(bad)
        except BadWeights:
            refused += 1
    assert refused > 100


def test_damaged_safetensors_are_refused(tmp_path: Path) -> None:
    folder = save_model(tmp_path / "m")
    file = folder / "model.safetensors"
    good = file.read_bytes()
    for content in (b"", good[:50], good[: len(good) - 10], b"\xff" * 100):
        file.write_bytes(content)
        with pytest.raises(BadWeights, match=r"model\.safetensors"):
            open_model(folder)
    file.unlink()
    with pytest.raises(BadWeights, match=r"model\.safetensors"):
        open_model(folder)


def test_damaged_configurations_are_refused(tmp_path: Path) -> None:
    folder = save_model(tmp_path / "m")
    for content in ("", "{", "[]", "{}"):
        (folder / "config.json").write_text(content)
        with pytest.raises(BadWeights):
            open_model(folder)
    with pytest.raises(BadWeights, match="no such file"):
        open_model(tmp_path / "nowhere")
