"""Clusters and the time of collectives on them: HCCL's algorithms in closed form, and the same message by message."""
