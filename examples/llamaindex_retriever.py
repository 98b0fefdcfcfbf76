"""Use a repository as a LlamaIndex retriever (`pip install '.[llamaindex]'`)."""

import sys

from rag.adapters.llamaindex import RepositoryRetriever

retriever = RepositoryRetriever(sys.argv[1] if len(sys.argv) > 1 else "data/sample_repo", k=4)
for found in retriever.retrieve("Where is a token checked?"):
    print(found.metadata["source"], found.score)
