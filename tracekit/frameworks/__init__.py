"""Callbacks that profile some steps of a training run, for the frameworks that own its loop."""
