"""Turnwright: a coding-agent runtime whose every turn is durable, bounded, observable and repeatable."""

__version__ = "0.1.0"
