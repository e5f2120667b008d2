"""Attempts to get a false word out of a model, by area."""
