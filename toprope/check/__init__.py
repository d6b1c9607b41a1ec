def check(trace, soc, *, sync="auto"): return []
