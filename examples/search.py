"""Search without a model and without storing a turn; print one place per line as JSON."""

import json
import sys

from rag import RAG

rag = RAG()
rag.prepare_retriever(sys.argv[1] if len(sys.argv) > 1 else "data/sample_repo")
for hit in rag.retrieve("Where is a token checked?", k=5):
    print(json.dumps({"place": str(hit.place), "symbol": hit.symbol, "score": round(hit.score, 3)}))
