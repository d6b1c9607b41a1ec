"""Twelve prototypes: 1 to 5 inputs, optional and dynamic ones, attributes of every type, nine element types, several outputs."""

from __future__ import annotations

PROTOTYPES = {
    "one_input": "relu_like(x: f16) -> y",
    "two_inputs": "add_custom(x: f16|f32, y: f16|f32) -> z",
    "three_inputs_bfloat16": "add_three(a: bf16, b: bf16, c: bf16) -> y",
    "four_inputs_int32": "add_four(a: i32, b: i32, c: i32, d: i32) -> y",
    "five_inputs": "add_five(a: f32, b: f32, c: f32, d: f32, e: f32) -> y",
    "optional": "add_bias(x: f32, bias?: f32) -> y",
    "dynamic": "add_all(xs*: f16) -> y",
    "optional_and_dynamic": "mixed(x: i16, gap?: i16, more*: i16) -> y",
    "number_attributes": "scaled(x: f32, alpha: float = 1.5, axis: int, keep: bool = true) -> y",
    "list_attributes": 'shaped(x: int8, mode: str = "mean", axes: list[int] = [0, 1], w: list[float] = [0.5], deep: list[list[int]] = [[1]]) -> y',
    "other_types": "convert(x: i64, mask: u8) -> y: i64, flags: bool",
    "combinations": "select_like(x: f16|f32|i32, index: i32|i32|i64) -> y: f16|f32|i32, where: i32|i32|i64",
}
FAST = ("optional_and_dynamic",)
