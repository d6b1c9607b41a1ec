"""LLM serving: paged KV cache, continuous batching, request merging, planning. See docs/serve.md."""
