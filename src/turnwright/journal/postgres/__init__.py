"""The journal of a team: one PostgreSQL database, any number of processes and machines. Needs the extra `postgres`."""
