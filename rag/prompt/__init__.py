"""Render question, turns and hits as a prompt with numbered sources, within one token budget."""
