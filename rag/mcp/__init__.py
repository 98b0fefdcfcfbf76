"""The Model Context Protocol: tools for agents and editors, over stdio (`rag mcp`) or HTTP (`rag.serve.mcp`).

    catalog   the tools: names, descriptions, arguments      prompts    requests that a user chooses by name
    protocol  messages of a client, and the replies to them  arguments  checks the arguments of a call
    host      what a program provides for the tools          local      the program `rag mcp`
    toolbox, memory_tools   what the tools do                stdio      its transport

DeepWiki's four tools keep their names, arguments and texts, so that its clients work unchanged.
"""
