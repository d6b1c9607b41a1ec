"""Merging small requests of any function into batches of adaptive size."""
