"""`toprope compat`: surveying checkouts of operator repositories: what compiles, which of their own unit tests pass."""
