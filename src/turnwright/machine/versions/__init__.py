"""Versions of a workspace: every file as it was before and after each step, kept outside of it, each content once."""
