"""Contract classes and fakes that mean something, for us and for whoever writes a backend."""
