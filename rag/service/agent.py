"""A conversational agent over a `UnifiedMemory`: it answers what was answered before, else a model does."""

from __future__ import annotations

from collections.abc import Callable

from rag.memory.preferences import LANGUAGE
from rag.memory.user_memory import Said, UnifiedMemory
from rag.prompt.templates import parse_template
from rag.prompt.views import plain
from rag.resources import shipped

Complete = Callable[[list[Said]], str]
"""The reply of a model to messages."""

_KNOWN = frozenset({"language"})


class ConversationalAgent:
    """Answers from the cache, else from a model that is told what was said and what the user prefers.

    Args:
        memory: what it remembers by.
        complete: asks a model with messages; what it raises is passed on, and nothing is stored then.
        language: in which it answers users who prefer none; "" is that of the question.
        history: how many messages the model is shown.
        model: what `complete` asks; another model's answers are not given for its.
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
        """The answer to a message. It and the message are in the session then, also when it was cached.

        Only a question that begins a session is answered from the cache and kept in it: what comes later may
        mean something else after what was said. Answers are shared by users who prefer the same language;
        what `cache_qa` was given without a scope depends on nothing, and is found by all.
        """
        memory = self._memory
        history = memory.get_conversation_history(user_id, self._history)
        language = memory.get_user_preference(user_id, LANGUAGE) or self._language
        scope = {"language": language, "model": self._model}
        answer = None if history else memory.get_cached_answer(message, scope, or_unscoped=True)
        if answer is None:
            asked: Said = {"role": "user", "content": message}
            answer = self._complete([*_told(language), *history, asked])
            if not history:
                memory.cache_qa(message, answer, scope)
        said = [{"role": "user", "content": message}, {"role": "assistant", "content": answer}]
        memory.batch_save_messages(user_id, said)
        return answer


def _told(language: str) -> list[Said]:
    if not language:
        return []
    path = shipped("templates") / "language.j2"
    template = parse_template(path.read_text(encoding="utf-8"), origin=str(path), knows=_KNOWN)
    return [{"role": "system", "content": template.render(language=plain(language)).strip()}]
