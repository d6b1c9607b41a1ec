"""From the form to instructions: places of memory accesses, what runs on which unit, buffers, order."""
