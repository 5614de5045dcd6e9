"""Turnwright: a coding-agent runtime whose every turn is durable, bounded, observable and repeatable."""
