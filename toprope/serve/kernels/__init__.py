"""The operations a model is made of: one interface, compiled C++ and plain torch behind it, and the memory of the KV cache."""
