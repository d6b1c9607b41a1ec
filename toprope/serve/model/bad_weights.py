"""The error of everything that reads models."""

from toprope.errors import BadInput


class BadWeights(BadInput):
    """A model file is damaged, incomplete, or of a kind that is not served; the message says where and what."""

    code = "bad-weights"
