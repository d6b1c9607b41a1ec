"""What is computed when: requests, their blocks in the paged KV cache, the scheduler and its policies."""
