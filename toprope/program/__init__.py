"""Whole programs: host C++ with ACL calls, aclnn calls of a custom operator, and single-file sources with `<<<...>>>`, run here.

`source` tells a program from a kernel; `run` builds and runs it; `show` prints what came out.
"""
