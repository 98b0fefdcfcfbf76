"""Use a repository as a LangChain retriever (`pip install '.[langchain]'`)."""

import sys

from rag.adapters.langchain import RepositoryRetriever

retriever = RepositoryRetriever(sources=[sys.argv[1] if len(sys.argv) > 1 else "data/sample_repo"], k=4)
for document in retriever.invoke("Where is a token checked?"):
    print(document.metadata["source"], document.metadata["score"])
