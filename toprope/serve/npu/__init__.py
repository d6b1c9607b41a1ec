"""The model's operations as operators of the software NPU: executed there, or only timed there."""
