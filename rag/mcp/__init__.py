"""The Model Context Protocol: tools for agents and editors, over stdio (`rag mcp`) or HTTP (`rag.serve.mcp`).

    catalog   the tools and prompts as agents read them      arguments  checks the arguments of a call
    protocol  messages of a client, and the replies to them  stdio      its transport in `rag mcp`
    host      what a program provides for the tools          local      the program `rag mcp`
    toolbox, memory_tools   what the tools do

DeepWiki's four tools keep their names, arguments and texts, so that its clients work unchanged.
"""
