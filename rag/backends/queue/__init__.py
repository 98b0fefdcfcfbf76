"""The queue of jobs in Postgres."""
