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
    *("",) * 3,  # a new database begins with version 4
    # A database of an earlier version (rag 0.2.0 wrote 3) has the table `origin`.
    """
    DO $$ BEGIN
        IF to_regclass('origin') IS NOT NULL THEN
            DROP TABLE IF EXISTS tally, posting;
            ALTER TABLE conversation RENAME TO old_conversation;
            ALTER TABLE item RENAME TO old_item;
            ALTER TABLE version RENAME TO old_version;
            ALTER TABLE cited RENAME TO old_cited;
            DROP INDEX conversation_name, conversation_expires, cited_path, cited_blob;
        END IF;
    END $$;
    CREATE SEQUENCE IF NOT EXISTS write_number;
    CREATE TABLE IF NOT EXISTS space (
        key       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        slot      bytea NOT NULL UNIQUE,
        namespace text NOT NULL
    );
    CREATE TABLE IF NOT EXISTS record (
        space      bigint NOT NULL,
        shelf      bytea NOT NULL,
        key        bytea NOT NULL,
        shelf_name text NOT NULL,
        key_name   text NOT NULL,
        value      bytea NOT NULL,
        expires    timestamptz,
        PRIMARY KEY (space, shelf, key)
    );
    CREATE INDEX IF NOT EXISTS record_expires ON record (expires) WHERE expires IS NOT NULL;
    CREATE TABLE conversation (
        key           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        slot          bytea NOT NULL UNIQUE,
        id            text NOT NULL,
        space         bigint NOT NULL,
        turns         bigint NOT NULL DEFAULT 0,
        messages      bigint NOT NULL DEFAULT 0,
        length        bigint NOT NULL DEFAULT 0,
        name          bytea NOT NULL DEFAULT '',
        updated       text NOT NULL DEFAULT '',
        expires       timestamptz,
        written       bigint,
        next_order    bigint NOT NULL DEFAULT 0,
        first_turn    bigint NOT NULL DEFAULT 0,
        first_message bigint NOT NULL DEFAULT 0,
        spans         text NOT NULL DEFAULT '',
        record        text NOT NULL DEFAULT ''
    ) WITH (fillfactor = 50);
    CREATE TABLE viewer (
        origin       bigint NOT NULL,
        conversation bigint NOT NULL,
        PRIMARY KEY (origin, conversation)
    );
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
    CREATE TABLE version (
        item    bigint NOT NULL,
        number  integer NOT NULL,
        record  text NOT NULL,
        PRIMARY KEY (item, number)
    );
    CREATE TABLE cited (
        item     bigint NOT NULL,
        path     bytea NOT NULL,
        location bytea NOT NULL,
        blob     bytea NOT NULL
    );
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
    DO $$ BEGIN
        IF to_regclass('origin') IS NOT NULL THEN
            INSERT INTO conversation OVERRIDING SYSTEM VALUE
            SELECT o.key, o.slot, o.id, o.space, o.turns, o.messages, o.length, coalesce(c.name, ''),
                coalesce(c.updated, ''), c.expires, c.written, coalesce(c.next_number, 0),
                coalesce(c.first_turn, 0), coalesce(c.first_message, 0), coalesce((
                    SELECT '[' || string_agg(format('[%s, %s, %s, %s]', n.id, n.key, s.first,
                        coalesce(s.last::text, 'null')), ', ' ORDER BY s.first) || ']'
                    FROM span s JOIN origin n ON n.key = s.origin WHERE s.conversation = c.key
                ), ''), coalesce(c.record, '')
            FROM origin o LEFT JOIN old_conversation c ON c.key = o.key;
            PERFORM setval(
                pg_get_serial_sequence('conversation', 'key'),
                nextval(pg_get_serial_sequence('origin', 'key'))
            );
            INSERT INTO viewer SELECT DISTINCT origin, conversation FROM span;
            INSERT INTO item SELECT (origin << 32) | (kind::bigint << 31) | number, space, kind, id, length,
                nullif(ARRAY(SELECT unnest(marks) ORDER BY 1), '{}'), record, terms, counts
            FROM old_item ORDER BY 1;
            INSERT INTO version
            SELECT (i.origin << 32) | (i.kind::bigint << 31) | i.number, v.version, v.record
            FROM old_version v JOIN old_item i ON i.key = v.item;
            INSERT INTO cited
            SELECT (i.origin << 32) | (i.kind::bigint << 31) | i.number, c.path, c.location, c.blob
            FROM old_cited c JOIN old_item i ON i.key = c.item ORDER BY 1;
            INSERT INTO posting SELECT space, term, part, min(key), max(key),
                string_agg(int8send(key) || int4send(count), '')
            FROM (
                SELECT i.space, t.term, i.key, t.count,
                    (row_number() OVER (PARTITION BY i.space, t.term ORDER BY i.key) - 1) / 100 AS part
                FROM item i, unnest(i.terms, i.counts) AS t (term, count)
            ) AS held GROUP BY space, term, part;
            DROP TABLE span, old_cited, old_version, old_item, old_conversation, origin;
        END IF;
    END $$;
    CREATE INDEX conversation_space ON conversation (space);
    CREATE UNIQUE INDEX conversation_name ON conversation (space, name) WHERE name <> '';
    CREATE INDEX conversation_expires ON conversation (expires) WHERE expires IS NOT NULL;
    CREATE INDEX viewer_conversation ON viewer (conversation);
    ALTER TABLE item ADD PRIMARY KEY (key) INCLUDE (length, id);
    CREATE UNIQUE INDEX item_named ON item (space, kind, id);
    CREATE INDEX item_marked ON item (key) WHERE marks IS NOT NULL;
    ALTER TABLE cited ADD PRIMARY KEY (item, path, location, blob);
    CREATE INDEX cited_path ON cited (path);
    CREATE INDEX cited_blob ON cited (blob);
    """,
)
"""Each entry upgrades the schema by one version. Add entries; never change one that was released."""
