-- Clicks are counted on the link itself: nobody asked who clicked, so nobody is remembered.

ALTER TABLE link ADD COLUMN clicks INTEGER NOT NULL DEFAULT 0;

CREATE INDEX link_expires ON link (expires) WHERE expires IS NOT NULL;
