-- Users, their API tokens, and the links they made. Times are unix seconds.

CREATE TABLE user (
    id            INTEGER PRIMARY KEY,
    name          TEXT NOT NULL UNIQUE,
    password_hash TEXT NOT NULL
);

CREATE TABLE token (
    hash    TEXT PRIMARY KEY,
    user_id INTEGER NOT NULL REFERENCES user (id) ON DELETE CASCADE,
    label   TEXT NOT NULL,
    revoked INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE link (
    id      INTEGER PRIMARY KEY,
    code    TEXT UNIQUE,
    url     TEXT NOT NULL,
    owner   INTEGER NOT NULL REFERENCES user (id) ON DELETE CASCADE,
    created INTEGER NOT NULL,
    expires INTEGER
);

CREATE INDEX link_owner ON link (owner, id);
