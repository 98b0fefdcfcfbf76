"""Our memory and our retrieval, worn by other people's frameworks. One module a framework:

    rag.adapters.autogen          RagMemory, RepositoryMemory      autogen-core 0.7
    rag.adapters.agentscope       RagMemory                        agentscope 1.0.12 to 1.0.21
    rag.adapters.agentscope2      KeptContext                      agentscope 2
    rag.adapters.langchain        RagChatMessageHistory, RepositoryRetriever
    rag.adapters.llamaindex       RepositoryRetriever
    rag.adapters.openai_agents    RagSession
    rag.adapters.backend          RagMemoryBackend: five methods, no framework

A module imports its framework when it is imported itself, and says which extra installs it. What they
share is in `store` and `conversation` (one of a store) and `repository` (questions to repositories).

Where a memory is kept is said as in `RAG_MEMORY`: "memory:" is this process, "sqlite:///PATH" a file, ""
what the user's settings name. A store that is open already can be given instead.
"""
