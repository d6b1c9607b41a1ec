"""Showing a run: summary (the numbers), text (terminal), html (one self-contained page), perfetto (trace file)."""
