"""Training at scale: what a layout needs in memory, how long its step takes, and which layout is best."""
