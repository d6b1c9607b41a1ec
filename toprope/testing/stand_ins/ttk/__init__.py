"""Stands in for the ops test kit in test assets, which import only its conversions of element types."""
