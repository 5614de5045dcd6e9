"""Patches in four formats: parsed and planned as pure functions on texts, then applied all or nothing."""
