"""The truth on disk: append, read, lease, follow, verify. `sqlite` is the default, `memory` is for tests."""
