"""Fuzzing: whatever text rag is given, it ends in time, within bounded memory, and without a traceback.

    make fuzz                                    100,000 inputs; continues where the last run stopped
    make fuzz ARGS="--target source --count 500" one target, so many inputs of it
    python -m tools.fuzz repeat source 4711      run one input again and print what it cost
    python -m tools.fuzz kept                    run the kept inputs of tests/fuzz/corpus

Every input is a function of three values: the seed, the target and its number. Nothing else is random, so an
input is repeated by naming the three.

Parts
    text.py       generators of text and of JSON values
    case.py       an input: its target, a label (a file's name, a route) and its bytes
    targets/      what is run: one class per part of rag that takes text from strangers
    worker.py     a process that runs one input after the other and measures each
    pool.py       starts workers, replaces those that died, kills those that exceed the bounds
    minimise.py   makes a failing input shorter while it still fails
    state.py      how far a run is, and what failed (.fuzz/state.json)

What an input must not do (`targets.Bounds`)
    raise         anything but what the target allows: a RagError, an answer with status 4xx
    take long     more than 1 s + 2 µs per byte of CPU time, so that a busy machine changes nothing; where
                  a parser reads it in a process of its own, what that process may take comes on top
    take memory   more than 64 MB + 400 bytes per byte above what the worker held before
A target is warmed up before its first input, and an input that exceeds time or memory runs twice more: what
is loaded only once, and what other programs cost that run beside it, is not counted.

Failing inputs are minimised and written to `.fuzz/failures/`. To keep one as a test, add it to
`tests/fuzz/corpus/cases.json` as [text, times] parts; `tests/fuzz/test_fuzz.py` runs all of them.
"""
