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

The tables of earlier versions are here because their files are upgraded in these steps.
"""

from __future__ import annotations

from rag.backends.sqlite import words
from rag.backends.sqlite.file import Step
from rag.backends.sqlite.upgrade import move_items, move_turns

APPLICATION_ID = 0x52414754
"""`RAGT` in the file's header."""

MIGRATIONS: tuple[tuple[Step, ...], ...] = (
    (
        """
        CREATE TABLE conversation (
            id          TEXT PRIMARY KEY,
            namespace   TEXT NOT NULL,
            name        TEXT NOT NULL,
            created     TEXT NOT NULL,
            updated     TEXT NOT NULL,
            written     INTEGER NOT NULL,
            next_number INTEGER NOT NULL DEFAULT 0
        ) STRICT
        """,
        "CREATE UNIQUE INDEX conversation_name ON conversation (namespace, name) WHERE name <> ''",
        "CREATE UNIQUE INDEX conversation_written ON conversation (written)",
        """
        CREATE TABLE conversation_source (
            conversation TEXT NOT NULL REFERENCES conversation (id) ON DELETE CASCADE,
            position     INTEGER NOT NULL,
            location     TEXT NOT NULL,
            ref          TEXT,
            include      TEXT NOT NULL,
            exclude      TEXT NOT NULL,
            PRIMARY KEY (conversation, position)
        ) STRICT, WITHOUT ROWID
        """,
        """
        CREATE TABLE turn (
            key                 INTEGER PRIMARY KEY,
            id                  TEXT NOT NULL,
            namespace           TEXT NOT NULL,
            conversation        TEXT NOT NULL REFERENCES conversation (id) ON DELETE CASCADE,
            number              INTEGER NOT NULL,
            parent              TEXT,
            question            TEXT,
            question_metadata   TEXT,
            standalone_question TEXT NOT NULL,
            answer              TEXT,
            answer_metadata     TEXT,
            complete            INTEGER NOT NULL,
            model               TEXT NOT NULL,
            prompt_hash         TEXT NOT NULL,
            prompt_tokens       INTEGER NOT NULL,
            answer_tokens       INTEGER NOT NULL,
            estimated           INTEGER NOT NULL,
            cost_usd            REAL,
            asked               TEXT,
            answered            TEXT,
            user_id             TEXT,
            metadata            TEXT,
            UNIQUE (namespace, id),
            UNIQUE (conversation, number)
        ) STRICT
        """,
        """
        CREATE TABLE citation (
            turn      INTEGER NOT NULL REFERENCES turn (key) ON DELETE CASCADE,
            position  INTEGER NOT NULL,
            n         INTEGER NOT NULL,
            repo      TEXT NOT NULL,
            path      TEXT NOT NULL,
            start     INTEGER NOT NULL,
            "end"     INTEGER NOT NULL,
            "commit"  TEXT,
            blob      TEXT NOT NULL,
            symbol    TEXT NOT NULL,
            span_hash TEXT NOT NULL,
            dirty     INTEGER NOT NULL,
            score     REAL NOT NULL,
            used      INTEGER NOT NULL,
            location  TEXT NOT NULL,
            PRIMARY KEY (turn, position)
        ) STRICT, WITHOUT ROWID
        """,
    ),
    (
        "CREATE TABLE space (key INTEGER PRIMARY KEY, namespace TEXT NOT NULL UNIQUE) STRICT",
        "ALTER TABLE conversation ADD COLUMN ttl_s REAL",
        "ALTER TABLE conversation ADD COLUMN keep_last INTEGER",
        "ALTER TABLE conversation ADD COLUMN expires TEXT",
        "ALTER TABLE conversation ADD COLUMN parent TEXT",
        "ALTER TABLE conversation ADD COLUMN forked_at INTEGER",
        "ALTER TABLE conversation ADD COLUMN first_turn INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE conversation ADD COLUMN first_message INTEGER NOT NULL DEFAULT 0",
        "CREATE INDEX conversation_expires ON conversation (expires) WHERE expires IS NOT NULL",
        """
        CREATE TABLE origin (
            key      INTEGER PRIMARY KEY,
            id       TEXT NOT NULL UNIQUE,
            space    INTEGER NOT NULL REFERENCES space (key),
            turns    INTEGER NOT NULL DEFAULT 0,
            messages INTEGER NOT NULL DEFAULT 0,
            length   INTEGER NOT NULL DEFAULT 0
        ) STRICT
        """,
        "CREATE INDEX origin_space ON origin (space)",
        """
        CREATE TABLE span (
            conversation TEXT NOT NULL REFERENCES conversation (id) ON DELETE CASCADE,
            first        INTEGER NOT NULL,
            origin       INTEGER NOT NULL REFERENCES origin (key),
            last         INTEGER,
            PRIMARY KEY (conversation, first)
        ) STRICT, WITHOUT ROWID
        """,
        "CREATE INDEX span_origin ON span (origin)",
        """
        CREATE TABLE item (
            key     INTEGER PRIMARY KEY,
            space   INTEGER NOT NULL,
            kind    INTEGER NOT NULL,
            id      TEXT NOT NULL,
            origin  INTEGER NOT NULL REFERENCES origin (key),
            number  INTEGER NOT NULL,
            length  INTEGER NOT NULL,
            record  TEXT NOT NULL,
            UNIQUE (space, kind, id)
        ) STRICT
        """,
        "CREATE UNIQUE INDEX item_place ON item (origin, kind, number, length)",
        """
        CREATE TABLE version (
            item    INTEGER NOT NULL REFERENCES item (key) ON DELETE CASCADE,
            version INTEGER NOT NULL,
            record  TEXT NOT NULL,
            PRIMARY KEY (item, version)
        ) STRICT, WITHOUT ROWID
        """,
        """
        CREATE TABLE mark (
            item INTEGER NOT NULL REFERENCES item (key) ON DELETE CASCADE,
            mark TEXT NOT NULL,
            PRIMARY KEY (item, mark)
        ) STRICT, WITHOUT ROWID
        """,
        """
        CREATE TABLE cited (
            item     INTEGER NOT NULL REFERENCES item (key) ON DELETE CASCADE,
            path     TEXT NOT NULL,
            location TEXT NOT NULL,
            blob     TEXT NOT NULL,
            PRIMARY KEY (item, path, location, blob)
        ) STRICT, WITHOUT ROWID
        """,
        "CREATE INDEX cited_path ON cited (path)",
        "CREATE INDEX cited_blob ON cited (blob)",
        """
        CREATE TABLE posting (
            space  INTEGER NOT NULL,
            term   TEXT NOT NULL,
            number INTEGER NOT NULL,
            item   INTEGER NOT NULL,
            origin INTEGER NOT NULL,
            kind   INTEGER NOT NULL,
            count  INTEGER NOT NULL,
            PRIMARY KEY (space, term, number, item)
        ) STRICT, WITHOUT ROWID
        """,
        """
        CREATE TABLE record (
            space   INTEGER NOT NULL,
            shelf   TEXT NOT NULL,
            key     TEXT NOT NULL,
            value   BLOB NOT NULL,
            expires TEXT,
            UNIQUE (space, shelf, key)
        ) STRICT
        """,
        "CREATE INDEX record_expires ON record (expires) WHERE expires IS NOT NULL",
        move_turns,
        "DROP TABLE citation",
        "DROP TABLE turn",
    ),
    (
        # With the id in it, the index alone answers a search.
        "DROP INDEX item_place",
        "CREATE UNIQUE INDEX item_place ON item (origin, kind, number, length, id)",
    ),
    (
        # An append writes to few places: terms to one row until many are moved at once, and citations as
        # numbers.
        "DROP TABLE cited",
        "DROP TABLE posting",
        """
        CREATE TABLE file (
            key      INTEGER PRIMARY KEY,
            path     TEXT NOT NULL,
            location TEXT NOT NULL,
            blob     TEXT NOT NULL,
            UNIQUE (path, location, blob)
        ) STRICT
        """,
        "CREATE INDEX file_blob ON file (blob)",
        """
        CREATE TABLE cited (
            item INTEGER NOT NULL REFERENCES item (key) ON DELETE CASCADE,
            file INTEGER NOT NULL REFERENCES file (key),
            PRIMARY KEY (item, file)
        ) STRICT, WITHOUT ROWID
        """,
        "CREATE INDEX cited_file ON cited (file)",
        """
        CREATE TABLE pending (
            item   INTEGER PRIMARY KEY REFERENCES item (key) ON DELETE CASCADE,
            space  INTEGER NOT NULL,
            place  INTEGER NOT NULL,
            number INTEGER NOT NULL,
            weight INTEGER NOT NULL,
            counts TEXT NOT NULL
        ) STRICT
        """,
        """
        CREATE TABLE segment (
            key    INTEGER PRIMARY KEY,
            weight INTEGER NOT NULL,
            first  INTEGER NOT NULL,
            last   INTEGER NOT NULL,
            target INTEGER
        ) STRICT
        """,
        """
        CREATE TABLE posting (
            segment INTEGER NOT NULL,
            space   INTEGER NOT NULL,
            term    TEXT NOT NULL,
            entries BLOB NOT NULL,
            PRIMARY KEY (segment, space, term)
        ) STRICT, WITHOUT ROWID
        """,
    ),
    (
        # A conversation is one row, an item another; words are in an index of SQLite's own.
        *(f"ALTER TABLE {table} RENAME TO old_{table}" for table in ("conversation", "item", "version")),
        *(f"DROP TABLE IF EXISTS {table}" for table in ("cited", "file", "pending", "posting", "segment")),
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
        move_items,
        *(f"DROP TABLE {table}" for table in ("mark", "old_version", "old_item", "span", "origin")),
        "DROP TABLE conversation_source",
        "DROP TABLE old_conversation",
        "CREATE INDEX conversation_space ON conversation (space)",
    ),
    (),  # The records of turns have a state; earlier programs would take one that is only asked for answered.
)
"""Each entry upgrades the schema by one version. Add entries; never change one that was released."""
