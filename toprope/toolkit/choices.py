"""Who may answer aclnn calls: the words of `toprope exec --executors` and TOPROPE_EXECUTORS."""

from __future__ import annotations

CHOICES = ("all", "library", "reference")
