"""Conversations that come in as files: our own, and those of other agents, retold as facts."""
