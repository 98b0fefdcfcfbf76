"""The tables of turns in a Postgres database, in a schema of their own, version by version.

    space           namespaces, by a number
    conversation ──< viewer    the origins that it shows, which are conversations (`rag.turns.model`)
      └──< item                turns and messages, as JSON records (`rag.schema`), with marks and terms
             ├──< version      earlier versions of a turn
             └──< cited        the files a turn cites, in any version
    pending, posting           the full-text index (`words`)
    record                     small records by shelf and key

The number of an origin is the key of its conversation, and part of the keys of its items
(`rag.turns.model.item_key`). A conversation that is deleted while forks show its items remains with no
`written`. `next_order` never decreases, so orders are not reused. `written` counts writes, so the most
recently written one is known without a clock. Columns of bytes contain slots (except `marks`, `entries` and a
record's value, which contain the bytes themselves), columns of text contain JSON, see `text`.

A transaction that hides items, or changes who shows them, locks the rows of their origins until it commits,
so that items that no conversation shows any more are always removed.
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
    # A conversation is one row; the key of an item has its place in it; postings are packed.
    """
    DROP TABLE tally;
    ALTER TABLE conversation RENAME TO old_conversation;
    ALTER TABLE item RENAME TO old_item;
    ALTER TABLE version RENAME TO old_version;
    ALTER TABLE cited RENAME TO old_cited;

    ALTER TABLE origin RENAME TO conversation;
    ALTER TABLE conversation
        DROP COLUMN tallied,
        ADD COLUMN name bytea NOT NULL DEFAULT '',
        ADD COLUMN updated text NOT NULL DEFAULT '',
        ADD COLUMN expires timestamptz,
        ADD COLUMN written bigint,
        ADD COLUMN next_order bigint NOT NULL DEFAULT 0,
        ADD COLUMN first_turn bigint NOT NULL DEFAULT 0,
        ADD COLUMN first_message bigint NOT NULL DEFAULT 0,
        ADD COLUMN spans text NOT NULL DEFAULT '',
        ADD COLUMN record text NOT NULL DEFAULT '';
    UPDATE conversation c SET name = o.name, updated = o.updated, expires = o.expires, written = o.written,
        next_order = o.next_number, first_turn = o.first_turn, first_message = o.first_message,
        record = o.record, spans = (
            SELECT '[' || string_agg(format('[%s, %s, %s, %s]', n.id, n.key, s.first,
                coalesce(s.last::text, 'null')), ', ' ORDER BY s.first) || ']'
            FROM span s JOIN conversation n ON n.key = s.origin WHERE s.conversation = o.key
        )
    FROM old_conversation o WHERE o.key = c.key;
    CREATE TABLE viewer (
        origin       bigint NOT NULL,
        conversation bigint NOT NULL,
        PRIMARY KEY (origin, conversation)
    );
    INSERT INTO viewer SELECT DISTINCT origin, conversation FROM span;
    CREATE INDEX viewer_conversation ON viewer (conversation);

    CREATE TABLE item (
        key    bigint NOT NULL,
        space  bigint NOT NULL,
        kind   smallint NOT NULL,
        id     bytea NOT NULL,
        length integer NOT NULL,
        marks  bytea[],
        record text NOT NULL,
        terms  bytea[] NOT NULL,
        counts integer[] NOT NULL
    );
    INSERT INTO item SELECT (origin << 32) | (kind::bigint << 31) | number, space, kind, id, length,
        nullif(ARRAY(SELECT unnest(marks) ORDER BY 1), '{}'), record, terms, counts
    FROM old_item ORDER BY 1;
    ALTER TABLE item ADD PRIMARY KEY (key) INCLUDE (length, id);
    CREATE UNIQUE INDEX item_named ON item (space, kind, id);
    CREATE INDEX item_marked ON item (key) WHERE marks IS NOT NULL;
    CREATE TABLE version (
        item    bigint NOT NULL,
        number  integer NOT NULL,
        record  text NOT NULL,
        PRIMARY KEY (item, number)
    );
    INSERT INTO version SELECT (i.origin << 32) | (i.kind::bigint << 31) | i.number, v.version, v.record
    FROM old_version v JOIN old_item i ON i.key = v.item;
    CREATE TABLE cited (
        item     bigint NOT NULL,
        path     bytea NOT NULL,
        location bytea NOT NULL,
        blob     bytea NOT NULL
    );
    INSERT INTO cited SELECT (i.origin << 32) | (i.kind::bigint << 31) | i.number, c.path, c.location, c.blob
    FROM old_cited c JOIN old_item i ON i.key = c.item ORDER BY 1;
    ALTER TABLE cited ADD PRIMARY KEY (item, path, location, blob);

    DROP TABLE posting, span, old_cited, old_version, old_item, old_conversation;
    CREATE INDEX cited_path ON cited (path);
    CREATE INDEX cited_blob ON cited (blob);
    CREATE UNIQUE INDEX conversation_name ON conversation (space, name) WHERE name <> '';
    CREATE INDEX conversation_expires ON conversation (expires) WHERE expires IS NOT NULL;

    CREATE TABLE pending (
        space  bigint NOT NULL,
        item   bigint NOT NULL,
        weight integer NOT NULL,
        PRIMARY KEY (space, item)
    ) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
    CREATE TABLE posting (
        space   bigint NOT NULL,
        term    bytea NOT NULL,
        part    bigint NOT NULL,
        first   bigint NOT NULL,
        last    bigint NOT NULL,
        entries bytea NOT NULL,
        PRIMARY KEY (space, term, part)
    );
    ALTER TABLE posting ALTER COLUMN entries SET STORAGE EXTERNAL;
    INSERT INTO posting SELECT space, term, part, min(key), max(key),
        string_agg(int8send(key) || int4send(count), '')
    FROM (
        SELECT i.space, t.term, i.key, t.count,
            (row_number() OVER (PARTITION BY i.space, t.term ORDER BY i.key) - 1) / 100 AS part
        FROM item i, unnest(i.terms, i.counts) AS t (term, count)
    ) AS held GROUP BY space, term, part;
    """,
)
"""Each entry upgrades the schema by one version. Add entries; never change one that was released."""
