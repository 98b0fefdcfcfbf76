"""A conversational agent over a `UnifiedMemory` that answers from its cache, else with a model."""

from __future__ import annotations

from collections.abc import Callable

from rag.memory.preferences import LANGUAGE
from rag.memory.user_memory import ChatMessage, UnifiedMemory
from rag.prompt.templates import parse_template
from rag.prompt.views import plain
from rag.resources import shipped

Complete = Callable[[list[ChatMessage]], str]
"""Returns the reply of a model to messages."""

_KNOWN = frozenset({"language"})


class ConversationalAgent:
    """Answers from the cache, else with a model that gets the history and the user's language.

    Args:
        memory: stores the history, the preferences and the cache.
        complete: calls a model with messages; its exceptions are passed on, and nothing is stored then.
        language: the language of answers to users without a preference; "" is that of the question.
        history: the maximum number of messages sent to the model.
        model: the name of the model; cached answers of other models are not used.
    """

    def __init__(
        self,
        memory: UnifiedMemory,
        complete: Complete,
        *,
        language: str = "",
        history: int = 10,
        model: str = "",
    ) -> None:
        self._memory, self._complete = memory, complete
        self._language, self._history, self._model = language, history, model

    def chat(self, user_id: str, message: str) -> str:
        """Answer a message. Message and answer are added to the session, even if the answer was cached.

        Only the first question of a session uses the cache, as a later one may depend on the context. Answers
        are shared by users with the same language; answers that `cache_qa` stored without a scope are shared
        by everyone.
        """
        memory = self._memory
        history = memory.get_conversation_history(user_id, self._history)
        language = memory.get_user_preference(user_id, LANGUAGE) or self._language
        scope = {"language": language, "model": self._model}
        answer = None if history else memory.get_cached_answer(message, scope, or_unscoped=True)
        if answer is None:
            asked: ChatMessage = {"role": "user", "content": message}
            answer = self._complete([*_language_prompt(language), *history, asked])
            if not history:
                memory.cache_qa(message, answer, scope)
        exchange = [{"role": "user", "content": message}, {"role": "assistant", "content": answer}]
        memory.batch_save_messages(user_id, exchange)
        return answer


def _language_prompt(language: str) -> list[ChatMessage]:
    if not language:
        return []
    path = shipped("templates") / "language.j2"
    template = parse_template(path.read_text(encoding="utf-8"), origin=str(path), knows=_KNOWN)
    return [{"role": "system", "content": template.render(language=plain(language)).strip()}]
