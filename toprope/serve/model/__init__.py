"""Llama-family models: configuration, weights (safetensors, GGUF), tokenizer, the forward pass."""
