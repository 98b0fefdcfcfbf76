"""Ask any code repository, and go on asking, with a memory that knows the code."""
