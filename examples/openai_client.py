"""Use an OpenAI client with `rag serve`: a repository is a model, citations are annotations."""

import sys

from openai import OpenAI

URL = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000"

client = OpenAI(base_url=f"{URL}/v1", api_key="none")
model = client.models.list().data[0].id
messages = [{"role": "user", "content": "Where is a token checked?"}]
for follow_up in ("And who calls it?", ""):
    reply = client.chat.completions.create(model=model, messages=messages).choices[0].message
    print(reply.content)
    messages += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": follow_up}]
