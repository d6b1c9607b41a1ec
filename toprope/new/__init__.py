"""`toprope new`: writing operator projects, from a prototype, a tile function or a Triton function."""
