"""What can be wrong with an operator project's own code, as exceptions.

TopropeError
└── ProjectError              an operator project cannot be loaded or called
    ├── MissingHostSource     a function that host code calls, or registers, is defined in none of its sources
    ├── MissingHeader         a header that a source includes is nowhere in the project
    ├── TilingFailed          the tiling function said no; the message holds what it logged
    ├── InferFailed           shape or type inference said no; the message holds what it logged
    ├── HostCrashed           host code divided by zero, used a null pointer, threw, or called abort
    ├── TilingMismatch        host and kernel disagree on the layout of the tiling data
    ├── KeyNotCompiled        the tiling key that the host chose stands for no branch or template of the kernel
    ├── AttributeMissing      an attribute that the definition requires was not given
    └── InputCount            too few or too many inputs, or a required one left out
"""

from __future__ import annotations

from toprope.errors import TopropeError


class ProjectError(TopropeError):
    code = "project-error"


class MissingHostSource(ProjectError):
    code = "missing-host-source"


class MissingHeader(ProjectError):
    code = "missing-header"


class TilingFailed(ProjectError):
    code = "tiling-failed"


class InferFailed(ProjectError):
    code = "infer-failed"


class HostCrashed(ProjectError):
    code = "host-crashed"


class TilingMismatch(ProjectError):
    code = "tiling-mismatch"


class KeyNotCompiled(ProjectError):
    code = "tiling-key-not-compiled"


class AttributeMissing(ProjectError):
    code = "attribute-missing"


class InputCount(ProjectError):
    code = "input-count"
