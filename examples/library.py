"""Ask a repository from Python, and continue the conversation."""

import sys

from rag import RAG

rag = RAG()  # settings as on the command line
rag.prepare_retriever(sys.argv[1] if len(sys.argv) > 1 else "data/sample_repo")
for question in ("How are sessions signed?", "And when do they expire?"):
    answer = rag(question)
    print(answer.text, *answer.citations, sep="\n")
