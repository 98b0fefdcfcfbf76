"""The second look: before it answers, a model may search and read again.

    look       runs steps, numbers and keeps what was found, and ends at a limit
    tool_look  its form for a model that calls tools: one conversation, which ends with the answer
    text_look  its form for other models: lines of text, and then a fresh prompt
    tools      what a step can do; everything stays within the files that the question may search
    protocol   how a step is asked for: a tool call of the OpenAI protocol, or a line of text
    budget     the limits of all steps together: their number, requests, tokens and seconds

AdalFlow 1.1.3 has an `Agent`, a `Runner` and a `FunctionTool` for this. They are not used, because

- `FunctionTool.__init__` calls `nest_asyncio.apply()`, which changes the event loop of the whole process, a
  server's too; and `FunctionTool.call` turns every exception of a tool into a string.
- `Agent` makes its planner a `Generator` with `use_cache=True` (a file in the home directory), and asks for
  JSON in the text of a reply (`JsonOutputParser` over `Function`), never for a tool call of the protocol.
- `Runner.call` limits only the number of steps, not tokens or seconds, cannot be cancelled (`cancel` ends the
  task of `astream` only), and on `except Exception` returns the message as the answer of a `RunnerResult`.
- The answer is a field of the last step's JSON (`_answer`), so that it could not be streamed with its
  citations checked, as every other answer is.

So tools are called over the OpenAI protocol directly, through our own client, and errors stay errors.
"""
