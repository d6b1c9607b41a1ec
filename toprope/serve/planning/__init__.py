"""Choosing limits before renting a chip: traffic, cost of a step, simulation, sweep, recommendation page."""
