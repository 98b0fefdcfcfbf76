"""One file a technology; imported only when asked for."""
