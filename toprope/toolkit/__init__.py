"""A drop-in toolkit: the folder layout, compiler command, CMake package and libraries that programs made for the vendor's toolkit ask for.

`prefix` lays the folder out, `compiler` stands in for the vendor's compiler, `runtime/` is the device library that programs load, and
`recorder` is the process beside each program that checks and times what it does. docs/design/toolkit.md says why it is built like this.
"""
