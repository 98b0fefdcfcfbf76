"""What of a conversation enters the prompt."""
