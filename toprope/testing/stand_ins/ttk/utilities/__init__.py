"""The part of the kit that assets use."""
