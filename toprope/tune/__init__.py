"""Tuning: the sizes that nobody has to choose by hand.

space.py     parameters and the values that they may take
subject.py   what is tuned: a tile function, an operator project, a kernel with constants; each predicts a point and verifies it
search.py    which points are worth a prediction: by a model of the time, or coordinate, evolutionary, exhaustive to compare
store.py     every finished point on disk, at once: an interrupted search goes on where it was
workers.py   predictions in processes of this machine or on a Ray cluster; the result does not depend on how many
state.py     a chip in a state: throttled clock, memory shared with others, fewer cores
decision.py  many shapes: few regions with a tiling each, as JSON and as a header for the host
explain.py   what bounds the winner, which limit is active, why the second lost
"""
