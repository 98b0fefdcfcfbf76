"""The tables of turns in a SQLite file, version by version.

    space                        namespaces, by a number
    conversation                 conversations, and those deleted whose items a fork shows (`written` is null)
         ├──< viewer             which conversations have a span of it (`rag.turns.model`)
         └──< item               turns and messages, as JSON records (`rag.schema`)
                ├──< version     earlier versions of a turn
                ├──< cited >── file      what a turn cites, in any version
                └──< pending, word       its terms (`words`)
    record                       small records by shelf and key

The key of an item contains its place (`rag.turns.model.item_key`); `conversation.next_order` never decreases,
so orders are not reused. `conversation.record` has the rest of a conversation: its sources, bounds and spans.
`written` counts writes, so the most recently written conversation is known without a clock. Times are ISO
8601 in UTC with microseconds, so they compare as text. Item kinds are 0 (turn) and 1 (message).

Files of the versions 2 to 4 are upgraded (`upgrade`); version 1 was written by development versions only.
"""

from __future__ import annotations

from rag.backends.sqlite import words
from rag.backends.sqlite.file import Step
from rag.backends.sqlite.upgrade import move_items, set_aside

APPLICATION_ID = 0x52414754
"""`RAGT` in the file's header."""

MIGRATIONS: tuple[tuple[Step, ...], ...] = (
    *((),) * 4,  # a new file begins with version 5
    (
        # A conversation is one row, an item another; words are in an index of SQLite's own.
        set_aside,
        "CREATE TABLE IF NOT EXISTS space (key INTEGER PRIMARY KEY, namespace TEXT NOT NULL UNIQUE) STRICT",
        """
        CREATE TABLE conversation (
            key        INTEGER PRIMARY KEY,
            id         TEXT NOT NULL UNIQUE,
            space      INTEGER NOT NULL REFERENCES space (key),
            name       TEXT NOT NULL DEFAULT '',
            updated    TEXT NOT NULL DEFAULT '',
            expires    TEXT,
            written    INTEGER,
            next_order INTEGER NOT NULL DEFAULT 0,
            turns      INTEGER NOT NULL DEFAULT 0,
            messages   INTEGER NOT NULL DEFAULT 0,
            length     INTEGER NOT NULL DEFAULT 0,
            record     TEXT NOT NULL DEFAULT ''
        ) STRICT
        """,
        "CREATE UNIQUE INDEX conversation_called ON conversation (space, name) WHERE name <> ''",
        "CREATE UNIQUE INDEX conversation_last ON conversation (written)",
        "CREATE INDEX conversation_ends ON conversation (expires) WHERE expires IS NOT NULL",
        """
        CREATE TABLE viewer (
            origin       INTEGER NOT NULL REFERENCES conversation (key),
            conversation INTEGER NOT NULL REFERENCES conversation (key),
            PRIMARY KEY (origin, conversation)
        ) STRICT, WITHOUT ROWID
        """,
        "CREATE INDEX viewer_conversation ON viewer (conversation)",
        """
        CREATE TABLE item (
            key    INTEGER PRIMARY KEY,
            space  INTEGER NOT NULL,
            kind   INTEGER NOT NULL,
            id     TEXT NOT NULL,
            length INTEGER NOT NULL,
            marks  TEXT,
            record TEXT NOT NULL,
            UNIQUE (space, kind, id)
        ) STRICT
        """,
        # With the id in it, the index alone answers a search.
        "CREATE UNIQUE INDEX item_brief ON item (key, length, id)",
        """
        CREATE TABLE version (
            item   INTEGER NOT NULL,
            number INTEGER NOT NULL,
            record TEXT NOT NULL,
            PRIMARY KEY (item, number)
        ) STRICT, WITHOUT ROWID
        """,
        """
        CREATE TABLE file (
            key      INTEGER PRIMARY KEY,
            path     TEXT NOT NULL,
            location TEXT NOT NULL,
            blob     TEXT NOT NULL,
            UNIQUE (path, location, blob)
        ) STRICT
        """,
        "CREATE INDEX file_of_blob ON file (blob)",
        """
        CREATE TABLE cited (
            item INTEGER NOT NULL,
            file INTEGER NOT NULL REFERENCES file (key),
            PRIMARY KEY (item, file)
        ) STRICT, WITHOUT ROWID
        """,
        "CREATE INDEX cited_in ON cited (file)",
        *words.SCHEMA,
        """
        CREATE TABLE IF NOT EXISTS record (
            space   INTEGER NOT NULL,
            shelf   TEXT NOT NULL,
            key     TEXT NOT NULL,
            value   BLOB NOT NULL,
            expires TEXT,
            UNIQUE (space, shelf, key)
        ) STRICT
        """,
        "CREATE INDEX IF NOT EXISTS record_expires ON record (expires) WHERE expires IS NOT NULL",
        move_items,
        "CREATE INDEX conversation_space ON conversation (space)",
    ),
    (),  # The records of turns have a state; earlier programs would take one that is only asked for answered.
)
"""Each entry upgrades the schema by one version. Add entries; never change one that was released."""
