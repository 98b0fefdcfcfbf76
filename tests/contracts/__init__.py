"""Contract test classes that every backend of a port must pass, and the fakes that they use."""
