"""The OpenAI-compatible routes under `/v1`."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI

from rag.serve.openai.chat import ChatCompletions, add_completions, add_embeddings, add_models
from rag.serve.openai.responses import add_responses
from rag.serve.service import Service


def install(app: FastAPI, service: Service) -> None:
    """Add the routes."""
    chat, router = ChatCompletions(service), APIRouter(prefix="/v1", tags=["OpenAI-compatible"])
    for add in (add_models, add_completions, add_responses, add_embeddings):
        add(router, chat)
    app.include_router(router)
