"""Memory and retrieval for other agent frameworks. One module per framework:

    rag.adapters.autogen          RagMemory, RepositoryMemory      autogen-core 0.7
    rag.adapters.agentscope       RagMemory                        agentscope 1.0.12 to 1.0.21
    rag.adapters.agentscope2      KeptContext                      agentscope 2
    rag.adapters.langchain        RagChatMessageHistory, RepositoryRetriever
    rag.adapters.llamaindex       RepositoryRetriever
    rag.adapters.openai_agents    RagSession
    rag.adapters.backend          RagMemoryBackend: five methods, no framework

A module imports its framework on its own import, and names the extra to install if it is missing. Shared code
is in `store` and `conversation` (a conversation in a store) and `repository` (search in repositories).

The argument `memory` has the format of `RAG_MEMORY`: "memory:" is in memory, "sqlite:///PATH" a file, "" the
store of the user's settings. An open store can be passed instead.
"""
