"""`/api`: our own routes, and the models of what they take and give."""
