"""The native routes under `/api`, and the models of their requests and responses."""
