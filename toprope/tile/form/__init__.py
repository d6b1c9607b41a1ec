"""The one intermediate form of kernels: typed nodes, what every operation means, a check, a printed shape, and an evaluation on NumPy."""
