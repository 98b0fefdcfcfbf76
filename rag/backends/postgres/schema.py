"""The tables of turns in a Postgres database, in a schema of their own, version by version.

    space                        namespaces, by a number
    conversation ──< span >── origin    what it shows: ranges of orders of origins
                         │              (`rag.turns.model`)
                         └──< item      turns and messages, as JSON records (`rag.schema`), with marks
                                ├──< version     earlier versions of a turn
                                ├──< cited       the files a turn cites, in any version
                                └──< posting     the count of a term: the inverted index, made from
                                                 `item.terms` and `item.counts`
    tally                        the number of an origin's items below `origin.tallied` with a term
    record                       small records by shelf and key

A conversation has the key of its origin, which may outlive it if a fork shows its items; an origin stores
their totals. `item.number` is the order within the origin; `conversation.next_number` is the next one and
never decreases, so numbers are not reused. `written` counts writes, so the most recently written one is known
without a clock. Item kinds are 0 (turn) and 1 (message). Columns of bytes contain slots (except `marks` and a
record's value, which contain the bytes themselves), columns of text contain JSON, see `text`.

A transaction that hides items, or lets more conversations show them, locks the rows of their origins until it
commits, so that items that no conversation shows any more are always removed.
"""

from __future__ import annotations

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE space (
        key       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        slot      bytea NOT NULL UNIQUE,
        namespace text NOT NULL
    );
    CREATE TABLE origin (
        key      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        slot     bytea NOT NULL UNIQUE,
        id       text NOT NULL,
        space    bigint NOT NULL,
        turns    bigint NOT NULL DEFAULT 0,
        messages bigint NOT NULL DEFAULT 0,
        length   bigint NOT NULL DEFAULT 0
    ) WITH (fillfactor = 50);
    CREATE INDEX origin_space ON origin (space);
    CREATE SEQUENCE write_number;
    CREATE TABLE conversation (
        key           bigint PRIMARY KEY,
        space         bigint NOT NULL,
        name          bytea NOT NULL,
        record        text NOT NULL,
        updated       text NOT NULL,
        expires       timestamptz,
        written       bigint NOT NULL DEFAULT nextval('write_number'),
        next_number   bigint NOT NULL,
        first_turn    bigint NOT NULL,
        first_message bigint NOT NULL
    ) WITH (fillfactor = 50);
    CREATE UNIQUE INDEX conversation_name ON conversation (space, name) WHERE name <> '';
    CREATE INDEX conversation_written ON conversation (space, written);
    CREATE INDEX conversation_expires ON conversation (expires) WHERE expires IS NOT NULL;
    CREATE TABLE span (
        conversation bigint NOT NULL REFERENCES conversation (key) ON DELETE CASCADE,
        first        bigint NOT NULL,
        origin       bigint NOT NULL,
        last         bigint,
        PRIMARY KEY (conversation, first)
    );
    CREATE INDEX span_origin ON span (origin);
    CREATE TABLE item (
        key    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        space  bigint NOT NULL,
        kind   smallint NOT NULL,
        id     bytea NOT NULL,
        origin bigint NOT NULL,
        number bigint NOT NULL,
        length integer NOT NULL,
        record text NOT NULL,
        marks  bytea[] NOT NULL,
        terms  bytea[] NOT NULL,
        counts integer[] NOT NULL
    );
    CREATE UNIQUE INDEX item_id ON item (space, kind, id);
    CREATE UNIQUE INDEX item_place ON item (origin, kind, number) INCLUDE (length);
    CREATE TABLE version (
        item    bigint NOT NULL REFERENCES item (key) ON DELETE CASCADE,
        version integer NOT NULL,
        record  text NOT NULL,
        PRIMARY KEY (item, version)
    );
    CREATE TABLE cited (
        item     bigint NOT NULL REFERENCES item (key) ON DELETE CASCADE,
        path     bytea NOT NULL,
        location bytea NOT NULL,
        blob     bytea NOT NULL,
        PRIMARY KEY (item, path, location, blob)
    );
    CREATE INDEX cited_path ON cited (path);
    CREATE INDEX cited_blob ON cited (blob);
    CREATE TABLE posting (
        space  bigint NOT NULL,
        term   bytea NOT NULL,
        number bigint NOT NULL,
        item   bigint NOT NULL,
        origin bigint NOT NULL,
        kind   smallint NOT NULL,
        count  integer NOT NULL,
        PRIMARY KEY (space, term, number, item)
    );
    CREATE TABLE record (
        space     bigint NOT NULL,
        shelf     bytea NOT NULL,
        key       bytea NOT NULL,
        shelf_name text NOT NULL,
        key_name  text NOT NULL,
        value     bytea NOT NULL,
        expires   timestamptz,
        PRIMARY KEY (space, shelf, key)
    );
    CREATE INDEX record_expires ON record (expires) WHERE expires IS NOT NULL;
    """,
    # An index-only scan counts and finds the matches of a term.
    """
    ALTER TABLE posting DROP CONSTRAINT posting_pkey,
        ADD PRIMARY KEY (space, term, number, item) INCLUDE (origin, kind, count);
    """,
    # The matches of a common term in a long conversation are not counted one by one.
    """
    ALTER TABLE origin ADD COLUMN tallied bigint NOT NULL DEFAULT 0;
    CREATE TABLE tally (
        origin  bigint NOT NULL,
        term    bytea NOT NULL,
        holders bigint NOT NULL,
        PRIMARY KEY (origin, term)
    ) WITH (fillfactor = 70);
    INSERT INTO tally SELECT origin, term, count(*) FROM posting GROUP BY origin, term;
    UPDATE origin o SET tallied = coalesce(
        (SELECT max(i.number) + 1 FROM item i WHERE i.origin = o.key AND i.kind IN (0, 1)), 0
    );
    """,
)
"""Each entry upgrades the schema by one version. Add entries; never change one that was released."""
