"""Models: parameter counts against published ones, Hugging Face configurations, refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from toprope.errors import BadInput
from toprope.train.shape import TrainModel

# Counts that the models' authors print (billions).
PUBLISHED = {
    "gpt3-175b": 174.6,
    "turing-530b": 529.6,
    "gpt-1t": 1008.0,
    "llama2-7b": 6.738,
    "llama3-70b": 70.55,
    "qwen3-8b": 8.19,
    "qwen3-30b-a3b": 30.53,
    "deepseek-v3": 671.03,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_the_published_count(name: str) -> None:
    assert TrainModel.load(name).parameters / 1e9 == pytest.approx(PUBLISHED[name], rel=1e-3)


def test_active_parameters_of_a_mixture() -> None:
    decoder = TrainModel.load("deepseek-v3").decoder
    model = TrainModel.load("deepseek-v3")
    dense = decoder.dense_first * decoder.dense_layer_parameters
    active = (decoder.layers - decoder.dense_first) * decoder.active_layer_parameters + dense
    assert (active + model.embedding_parameters + model.head_parameters) / 1e9 == pytest.approx(37.5, rel=0.02)


def test_operations_follow_the_published_formula() -> None:
    model, b, s = TrainModel.load("gpt3-175b"), 1536, 2048
    h, layers, v = model.decoder.hidden, model.decoder.layers, model.vocabulary
    expected = 72 * b * s * layers * h**2 * (1 + s / (6 * h) + v / (12 * layers * h))
    assert model.step_flops(b, s) == pytest.approx(expected, rel=1e-9)


def test_hugging_face_configuration_of_a_vision_language_model(tmp_path: Path) -> None:
    text = {
        "hidden_size": 8192,
        "num_hidden_layers": 80,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "intermediate_size": 29568,
        "vocab_size": 151674,
    }
    vision = {
        "hidden_size": 3200,
        "num_hidden_layers": 45,
        "num_attention_heads": 25,
        "intermediate_size": 12800,
        "image_size": 448,
        "patch_size": 14,
    }
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"llm_config": text, "vision_config": vision, "downsample_ratio": 0.5}))
    model = TrainModel.load(str(tmp_path))
    preset = TrainModel.load("internvl2.5-78b")
    assert model.decoder.parameters == preset.decoder.parameters
    assert model.encoders[0].parameters == preset.encoders[0].parameters
    assert (model.image_tokens, model.pooled_tokens) == (1024, 256)
    assert model.projector_parameters == preset.projector_parameters


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not JSON"),
        ("{", "not JSON"),
        ('{"hidden_size": 8}', "num_attention_heads"),
        (
            '{"num_attention_heads": 0, "hidden_size": 8, "num_hidden_layers": 1, "intermediate_size": 4, "vocab_size": 9}',
            "heads",
        ),
    ],
)
def test_a_configuration_that_lacks_something(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(text)
    with pytest.raises(BadInput, match=says):
        TrainModel.load(str(file))


def test_unknown_models_are_named() -> None:
    with pytest.raises(BadInput, match="no model 'gpt9'"):
        TrainModel.load("gpt9")


def test_a_frozen_encoder_has_no_backward_pass() -> None:
    from dataclasses import replace

    model = TrainModel.load("internvl2.5-78b")
    frozen = replace(model, stacks=(replace(model.encoders[0], trained=False), model.decoder))
    encoder = model.encoders[0].forward_flops(4 * 1025, 1025)
    assert model.step_flops(1, 4096, 4.0) - frozen.step_flops(1, 4096, 4.0) == pytest.approx(2 * encoder)
