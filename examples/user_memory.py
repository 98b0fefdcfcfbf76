"""Remember users without a repository: sessions with a time to live, preferences, cached answers."""

from rag.answer_cache.cache import AnswerCache
from rag.memory.user_memory import UnifiedMemory
from rag.service import Engine
from rag.service.loop.agent import ConversationalAgent
from rag.settings import load_settings

engine = Engine(load_settings())
memory = UnifiedMemory(engine.turns, cache=AnswerCache(engine.turns))
memory.save_user_preference("ada", "language", "en")
agent = ConversationalAgent(memory, complete=lambda messages: f"I got {len(messages)} messages.")
print(agent.chat("ada", "What is a turn?"))
print(agent.chat("ada", "Can you give an example?"))
print(memory.get_conversation_history("ada"))
engine.close()
