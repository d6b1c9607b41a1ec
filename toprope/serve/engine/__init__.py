"""One engine: steps of model and sampler over the scheduler's batches, in a process of its own."""
