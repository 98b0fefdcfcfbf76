"""Which questions are not in English."""

from __future__ import annotations

import pytest

from rag.backends.static_embedder import StaticEmbedder
from rag.retrieval.question_language import is_foreign


@pytest.mark.parametrize(
    "question",
    [
        "Wie werden Passwörter gehasht?",
        "Was passiert, wenn ein Cookie abläuft?",
        "¿Dónde se guardan los datos del usuario?",
        "Où est vérifié le mot de passe ?",
        "Onde ficam as configurações do banco de dados?",
        "Dove viene controllato il token?",
        "Как подписываются сессии?",
        "Gdzie sprawdzany jest token?",
        "CsrfViewMiddleware 在哪里使用？",
        "セッションはどのように署名されますか？",
        "세션은 어떻게 서명되나요?",
        "ما هي الوظيفة الرئيسية؟",
    ],
)
def test_other_languages_are_told_by_their_script_or_their_words(question):
    assert is_foreign(question, StaticEmbedder())


@pytest.mark.parametrize(
    "question",
    [
        "",
        "parse_range",
        "RequestHandler XSRF cookie",
        "How does rxjs render React components?",
        "Where is `Größe_für_Straße` set?",
        "Where are naïve datetimes rejected?",
        "Which handler sends SMS through Twilio?",
        "List todos",
        "websocket handshake timeout",
        "csrf token validation middleware",
        "Sends notifications through Slack Webhooks",
    ],
)
def test_english_questions_and_names_are_left(question):
    assert not is_foreign(question, StaticEmbedder())
