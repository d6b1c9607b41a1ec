"""The error of everything that reads models."""


class BadWeights(Exception):
    """A model file is damaged, incomplete, or of a kind that is not served; the message says where and what."""
