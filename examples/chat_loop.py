"""Chat on a terminal: answers stream, and each turn is stored in the conversation `examples`."""

import sys

from rag import RAG, ProviderError

rag = RAG(conversation="examples")
rag.prepare_retriever(sys.argv[1] if len(sys.argv) > 1 else "data/sample_repo")
for line in sys.stdin:
    try:
        for piece in rag.stream(line.strip()):
            print(piece, end="", flush=True)
    except ProviderError as error:
        print(f"the model failed: {error}", file=sys.stderr)
    print("\n---")
print(f"{len(rag.memory())} turns so far", file=sys.stderr)
