PRAGMA user_version = 4;
PRAGMA application_id = 1380009812;
CREATE TABLE conversation (
    id          TEXT PRIMARY KEY,
    namespace   TEXT NOT NULL,
    name        TEXT NOT NULL,
    created     TEXT NOT NULL,
    updated     TEXT NOT NULL,
    written     INTEGER NOT NULL,
    next_number INTEGER NOT NULL DEFAULT 0
, ttl_s REAL, keep_last INTEGER, expires TEXT, parent TEXT, forked_at INTEGER, first_turn INTEGER NOT NULL DEFAULT 0, first_message INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE UNIQUE INDEX conversation_name ON conversation (namespace, name) WHERE name <> '';
CREATE UNIQUE INDEX conversation_written ON conversation (written);
CREATE TABLE conversation_source (
    conversation TEXT NOT NULL REFERENCES conversation (id) ON DELETE CASCADE,
    position     INTEGER NOT NULL,
    location     TEXT NOT NULL,
    ref          TEXT,
    include      TEXT NOT NULL,
    exclude      TEXT NOT NULL,
    PRIMARY KEY (conversation, position)
) STRICT, WITHOUT ROWID;
CREATE TABLE space (key INTEGER PRIMARY KEY, namespace TEXT NOT NULL UNIQUE) STRICT;
CREATE INDEX conversation_expires ON conversation (expires) WHERE expires IS NOT NULL;
CREATE TABLE origin (
    key      INTEGER PRIMARY KEY,
    id       TEXT NOT NULL UNIQUE,
    space    INTEGER NOT NULL REFERENCES space (key),
    turns    INTEGER NOT NULL DEFAULT 0,
    messages INTEGER NOT NULL DEFAULT 0,
    length   INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX origin_space ON origin (space);
CREATE TABLE span (
    conversation TEXT NOT NULL REFERENCES conversation (id) ON DELETE CASCADE,
    first        INTEGER NOT NULL,
    origin       INTEGER NOT NULL REFERENCES origin (key),
    last         INTEGER,
    PRIMARY KEY (conversation, first)
) STRICT, WITHOUT ROWID;
CREATE INDEX span_origin ON span (origin);
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
) STRICT;
CREATE TABLE version (
    item    INTEGER NOT NULL REFERENCES item (key) ON DELETE CASCADE,
    version INTEGER NOT NULL,
    record  TEXT NOT NULL,
    PRIMARY KEY (item, version)
) STRICT, WITHOUT ROWID;
CREATE TABLE mark (
    item INTEGER NOT NULL REFERENCES item (key) ON DELETE CASCADE,
    mark TEXT NOT NULL,
    PRIMARY KEY (item, mark)
) STRICT, WITHOUT ROWID;
CREATE TABLE record (
    space   INTEGER NOT NULL,
    shelf   TEXT NOT NULL,
    key     TEXT NOT NULL,
    value   BLOB NOT NULL,
    expires TEXT,
    UNIQUE (space, shelf, key)
) STRICT;
CREATE INDEX record_expires ON record (expires) WHERE expires IS NOT NULL;
CREATE UNIQUE INDEX item_place ON item (origin, kind, number, length, id);
CREATE TABLE file (
    key      INTEGER PRIMARY KEY,
    path     TEXT NOT NULL,
    location TEXT NOT NULL,
    blob     TEXT NOT NULL,
    UNIQUE (path, location, blob)
) STRICT;
CREATE INDEX file_blob ON file (blob);
CREATE TABLE cited (
    item INTEGER NOT NULL REFERENCES item (key) ON DELETE CASCADE,
    file INTEGER NOT NULL REFERENCES file (key),
    PRIMARY KEY (item, file)
) STRICT, WITHOUT ROWID;
CREATE INDEX cited_file ON cited (file);
CREATE TABLE pending (
    item   INTEGER PRIMARY KEY REFERENCES item (key) ON DELETE CASCADE,
    space  INTEGER NOT NULL,
    place  INTEGER NOT NULL,
    number INTEGER NOT NULL,
    weight INTEGER NOT NULL,
    counts TEXT NOT NULL
) STRICT;
CREATE TABLE segment (
    key    INTEGER PRIMARY KEY,
    weight INTEGER NOT NULL,
    first  INTEGER NOT NULL,
    last   INTEGER NOT NULL,
    target INTEGER
) STRICT;
CREATE TABLE posting (
    segment INTEGER NOT NULL,
    space   INTEGER NOT NULL,
    term    TEXT NOT NULL,
    entries BLOB NOT NULL,
    PRIMARY KEY (segment, space, term)
) STRICT, WITHOUT ROWID;
