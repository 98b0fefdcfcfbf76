"""Queues of jobs: in the process, and in Postgres."""
