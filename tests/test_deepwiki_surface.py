"""Code as DeepWiki's callers and its founding description write it, run against ours.

DeepWiki-open's names: `UserQuery`, `AssistantResponse`, `DialogTurn`, `CustomConversation`, `Memory`,
`RAGAnswer`, `RAG`, `DatabaseManager`, `read_all_documents`, `transform_documents_and_save_to_db`.
"""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest

import rag
from rag import (
    RAG,
    AssistantResponse,
    CustomConversation,
    DatabaseManager,
    DialogTurn,
    Memory,
    ProviderError,
    RAGAnswer,
    UserQuery,
    read_all_documents,
    transform_documents_and_save_to_db,
)
from rag.adal import adalflow as adal
from tests.servers.provider import ProviderServer

SIGNED = "How are sessions signed?"

RAG_TEMPLATE = r"""<START_OF_SYS_PROMPT>
{{system_prompt}}
{{output_format_str}}
<END_OF_SYS_PROMPT>
{# OrderedDict of DialogTurn #}
{% if conversation_history %}
<START_OF_CONVERSATION_HISTORY>
{% for key, dialog_turn in conversation_history.items() %}
{{key}}.
User: {{dialog_turn.user_query.query_str}}
You: {{dialog_turn.assistant_response.response_str}}
{% endfor %}
<END_OF_CONVERSATION_HISTORY>
{% endif %}
{% if contexts %}
<START_OF_CONTEXT>
{% for context in contexts %}
{{loop.index }}.
File Path: {{context.meta_data.get('file_path', 'unknown')}}
Content: {{context.text}}
{% endfor %}
<END_OF_CONTEXT>
{% endif %}
<START_OF_USER_PROMPT>
{{input_str}}
<END_OF_USER_PROMPT>
"""


def test_a_memory_keeps_dialog_turns():
    memory = Memory()
    assert isinstance(memory, adal.core.component.DataComponent)
    assert memory() == {}
    assert memory.add_dialog_turn(user_query="What is it?", assistant_response="A shortener.")
    assert memory.add_dialog_turn("And who runs it?", "You do.")
    for key, dialog_turn in memory().items():
        assert key == dialog_turn.id
        assert dialog_turn.user_query.query_str
        assert dialog_turn.assistant_response.response_str
    assert [turn.user_query.query_str for turn in memory.call().values()] == [
        "What is it?",
        "And who runs it?",
    ]


def test_turns_are_appended_by_hand_as_its_own_class_does():
    memory = Memory()
    dialog_turn = DialogTurn(
        id=str(uuid4()),
        user_query=UserQuery(query_str="What is it?"),
        assistant_response=AssistantResponse(response_str="A shortener."),
    )
    assert hasattr(memory.current_conversation, "append_dialog_turn")
    assert hasattr(memory.current_conversation, "dialog_turns")
    memory.current_conversation.dialog_turns.append(dialog_turn)
    assert len(memory.current_conversation.dialog_turns) == 1
    conversation = CustomConversation()
    conversation.append_dialog_turn(dialog_turn)
    memory = Memory()
    memory.current_conversation = conversation
    memory.add_dialog_turn("And who runs it?", "You do.")
    assert memory.current_conversation.dialog_turns[0].id == dialog_turn.id
    assert next(iter(memory())) == dialog_turn.id


def test_turns_of_adalflows_own_classes_are_taken():
    types = adal.core.types
    turn = types.DialogTurn(
        id="42",
        user_query=types.UserQuery(query_str="What is it?"),
        assistant_response=types.AssistantResponse(response_str="A shortener."),
    )
    memory = Memory()
    memory.current_conversation.append_dialog_turn(turn)
    assert memory()["42"].assistant_response.response_str == "A shortener."


def test_rag_answers_with_the_pair_that_callers_unpack(sample_repo):
    rag = RAG(use_s3=False, local_ollama=False)
    assert isinstance(rag, adal.Component)
    rag.prepare_retriever(str(sample_repo), "local", None, ["docs"], ["*.md"], None, None)
    response, retrieved_documents = rag.call(SIGNED)
    assert isinstance(response, RAGAnswer)
    assert response.answer
    assert isinstance(response.rationale, str)
    contexts = retrieved_documents[0].documents
    assert contexts[0].meta_data.get("file_path", "unknown") == "snip/sessions.py"
    assert all(doc.text for doc in contexts)
    assert not [doc for doc in contexts if doc.meta_data["file_path"].startswith("docs/")]
    assert len(retrieved_documents[0].doc_indices) == len(retrieved_documents[0].doc_scores) == len(contexts)
    grouped: dict[str, list[str]] = {}
    for doc in contexts:
        grouped.setdefault(doc.meta_data["file_path"], []).append(doc.text)
    assert grouped
    (turn,) = rag.memory().values()
    assert turn.assistant_response.response_str == response.answer


class ItsOwnCall(RAG):
    """With the body of DeepWiki's first `RAG.call`."""

    def call(self, query, language=None):
        retrieved_documents = self.retriever(query)
        retrieved_documents[0].documents = [
            self.transformed_docs[doc_index] for doc_index in retrieved_documents[0].doc_indices
        ]
        prompt_kwargs = {
            "input_str": query,
            "contexts": retrieved_documents[0].documents,
            "conversation_history": self.memory(),
        }
        response = self.generator(prompt_kwargs=prompt_kwargs)
        final_response = response.data
        self.memory.add_dialog_turn(user_query=query, assistant_response=final_response.answer)
        return final_response, retrieved_documents


def test_its_own_call_runs_in_a_subclass_without_a_model(sample_repo):
    rag = ItsOwnCall()
    rag.prepare_retriever(str(sample_repo))
    response, retrieved_documents = rag(SIGNED)
    assert "def sign" in response.answer
    assert response.citations[0].path == retrieved_documents[0].documents[0].meta_data["file_path"]
    assert [turn.assistant_response.response_str for turn in rag.memory().values()] == [response.answer]


@pytest.mark.parametrize("template", [None, RAG_TEMPLATE, rag.RAG_TEMPLATE], ids=["default", "its", "ours"])
def test_its_own_call_runs_in_a_subclass_with_a_model(sample_repo, template):
    with ProviderServer(answers=["With HMAC [1].", "In a day [2] [99]."]) as server:
        rag = ItsOwnCall(model="test-model", base_url=server.base_url, template=template)
        rag.prepare_retriever(str(sample_repo))
        rag(SIGNED)
        response, _ = rag("When do they expire?")
        _, user = server.chats[-1].body["messages"]
    assert response.answer == "In a day [1]."
    assert f"User: {SIGNED}\nYou: With HMAC." in user["content"]
    assert "snip/sessions.py" in user["content"]


def test_its_generator_returns_adalflows_output_and_refuses_what_it_cannot_use(sample_repo):
    with ProviderServer(answers=["Ja."]) as server:
        rag = RAG(model="test-model", base_url=server.base_url)
        contexts = [adal.core.types.Document(text="def sign(): ...", estimated_num_tokens=0)]
        kwargs = {"input_str": "Signed?", "contexts": contexts, "system_prompt": "Answer in German."}
        output = rag.generator(kwargs, {"temperature": 0.5}, id="7")
        assert server.chats[0].body["temperature"] == 0.5
    assert isinstance(output, adal.core.types.GeneratorOutput)
    assert (output.id, output.data.answer, output.raw_response, output.error) == ("7", "Ja.", "Ja.", None)
    assert output.usage.total_tokens == output.usage.prompt_tokens + output.usage.completion_tokens > 0
    assert "Answer in German." in output.input
    assert "document-0" in output.input
    with pytest.raises(TypeError, match="context"):
        rag.generator(prompt_kwargs={"input_str": "Signed?", "context": contexts})
    with pytest.raises(TypeError, match="input_str"):
        rag.generator(prompt_kwargs={"contexts": contexts})
    with pytest.raises(ProviderError):
        rag.generator(kwargs)


async def test_its_generator_is_called_asynchronously(sample_repo):
    assert "Nothing was found" in (await RAG().generator.acall({"input_str": "Signed?"})).data.answer


class ItsOwnPreparation(DatabaseManager):
    """With the body of DeepWiki's first `prepare_database`, and the call of a later one."""

    def prepare_database(self, repo_url_or_path, access_token=None, local_ollama=False):
        self.reset_database()
        self._create_repo(repo_url_or_path, access_token)
        return self.prepare_db_index(local_ollama=local_ollama)

    def prepare_typed(self, repo_url_or_path, repo_type, access_token):
        self.reset_database()
        self._create_repo(repo_url_or_path, repo_type, access_token)
        return self.prepare_db_index()


def test_its_own_preparation_runs_in_a_subclass(sample_repo):
    manager = ItsOwnPreparation()
    assert len(manager.prepare_database(str(sample_repo))) == len(
        DatabaseManager().prepare_database(str(sample_repo))
    )
    manager.prepare_database(str(sample_repo), "secret-token")
    assert manager.engine.settings.git_token == "secret-token"
    manager.prepare_typed(str(sample_repo), "github", "another-token")
    assert manager.engine.settings.git_token == "another-token"


def test_rag_is_made_with_a_provider_and_a_model_and_told_a_language(sample_repo):
    with ProviderServer(answers=["Mit HMAC [1]."]) as server:
        rag = RAG(provider="openai", model="test-model", base_url=server.base_url)
        rag.prepare_retriever(str(sample_repo), type="github", access_token=None)
        answer = rag(SIGNED, language="de")
        assert answer.answer == "Mit HMAC [1]."
        assert '"de"' in server.chats[0].prompt
        assert isinstance(rag.generator.generator, adal.Generator)


def test_its_template_renders_through_our_composer(sample_repo):
    with ProviderServer(answers=["With HMAC [1].", "When do sessions expire?", "In a day [1]."]) as server:
        rag = RAG(model="test-model", base_url=server.base_url, template=RAG_TEMPLATE)
        rag.prepare_retriever(str(sample_repo))
        rag(SIGNED)
        rag("And when do they expire?")
        system, user = server.chats[-1].body["messages"]
    assert system["role"] == "system"
    assert "sources" in system["content"]
    assert f"User: {SIGNED}\nYou: With HMAC [snip/sessions.py:34-38]." in user["content"]
    assert "File Path: snip/sessions.py\nContent: " in user["content"]
    assert "And when do they expire?" in user["content"].splitlines()


def test_a_database_manager_prepares_opens_and_forgets(sample_repo):
    manager = DatabaseManager()
    assert manager.db is None
    assert manager.repo_paths is None
    documents = manager.prepare_database(
        repo_url_or_path=str(sample_repo), access_token=None, local_ollama=False
    )
    assert len(documents) == len(manager.db.get_transformed_data(key="split_and_embed")) > 30
    assert {"file_path", "type", "is_code", "is_implementation", "title", "token_count"} <= set(
        documents[0].meta_data
    )
    vectors = np.array([doc.vector for doc in documents])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert manager.repo_paths["save_repo_dir"] == str(sample_repo)
    assert Path(manager.repo_paths["save_db_file"]).is_file()
    assert manager.repo_paths["save_db_file"].endswith(".pkl")
    assert len(manager.prepare_db_index(local_ollama=False)) == len(documents)
    assert len(manager.prepare_retriever(str(sample_repo))) == len(documents)
    manager.reset_database()
    assert (manager.db, manager.repo_url_or_path, manager.repo_paths) == (None, None, None)


def test_documents_are_read_transformed_and_saved(sample_repo, tmp_path):
    documents = read_all_documents(str(sample_repo), local_ollama=False, excluded_dirs=["./docs/"])
    paths = [doc.meta_data["file_path"] for doc in documents]
    assert "snip/sessions.py" in paths
    assert not [path for path in paths if path.startswith("docs/")]
    sessions = documents[paths.index("snip/sessions.py")]
    assert sessions.text == (sample_repo / "snip" / "sessions.py").read_text()
    target = tmp_path / "databases" / "sample.pkl"
    db = transform_documents_and_save_to_db(documents, str(target), local_ollama=False)
    assert target.is_file()
    assert len(db.get_transformed_data("split_and_embed")) > len(documents) / 2


def test_only_what_is_included_is_read(sample_repo):
    only = read_all_documents(str(sample_repo), included_dirs=["snip"], included_files=["README.md"])
    paths = {doc.meta_data["file_path"] for doc in only}
    assert "README.md" in paths
    assert all(Path(path).parts[0] in ("snip", "README.md") for path in paths)


@pytest.mark.parametrize("wrong", ["/nowhere/at/all", "https://127.0.0.1:9/none.git"])
def test_a_repository_that_cannot_be_had_raises_where_deepwiki_apologises(wrong):
    from rag.errors import SourceError

    rag = RAG()
    with pytest.raises(SourceError):
        rag.prepare_retriever(wrong)
