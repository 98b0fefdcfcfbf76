CREATE SCHEMA rag;
CREATE TABLE rag.cited (
    item bigint NOT NULL,
    path bytea NOT NULL,
    location bytea NOT NULL,
    blob bytea NOT NULL
);
CREATE SEQUENCE rag.write_number
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE rag.conversation (
    key bigint NOT NULL,
    space bigint NOT NULL,
    name bytea NOT NULL,
    record text NOT NULL,
    updated text NOT NULL,
    expires timestamp with time zone,
    written bigint DEFAULT nextval('rag.write_number'::regclass) NOT NULL,
    next_number bigint NOT NULL,
    first_turn bigint NOT NULL,
    first_message bigint NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE rag.item (
    key bigint NOT NULL,
    space bigint NOT NULL,
    kind smallint NOT NULL,
    id bytea NOT NULL,
    origin bigint NOT NULL,
    number bigint NOT NULL,
    length integer NOT NULL,
    record text NOT NULL,
    marks bytea[] NOT NULL,
    terms bytea[] NOT NULL,
    counts integer[] NOT NULL
);
ALTER TABLE rag.item ALTER COLUMN key ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME rag.item_key_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE rag.origin (
    key bigint NOT NULL,
    slot bytea NOT NULL,
    id text NOT NULL,
    space bigint NOT NULL,
    turns bigint DEFAULT 0 NOT NULL,
    messages bigint DEFAULT 0 NOT NULL,
    length bigint DEFAULT 0 NOT NULL,
    tallied bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='50');
ALTER TABLE rag.origin ALTER COLUMN key ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME rag.origin_key_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE rag.posting (
    space bigint NOT NULL,
    term bytea NOT NULL,
    number bigint NOT NULL,
    item bigint NOT NULL,
    origin bigint NOT NULL,
    kind smallint NOT NULL,
    count integer NOT NULL
);
CREATE TABLE rag.record (
    space bigint NOT NULL,
    shelf bytea NOT NULL,
    key bytea NOT NULL,
    shelf_name text NOT NULL,
    key_name text NOT NULL,
    value bytea NOT NULL,
    expires timestamp with time zone
);
CREATE TABLE rag.schema_version (
    version integer NOT NULL
);
CREATE TABLE rag.space (
    key bigint NOT NULL,
    slot bytea NOT NULL,
    namespace text NOT NULL
);
ALTER TABLE rag.space ALTER COLUMN key ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME rag.space_key_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE rag.span (
    conversation bigint NOT NULL,
    first bigint NOT NULL,
    origin bigint NOT NULL,
    last bigint
);
CREATE TABLE rag.tally (
    origin bigint NOT NULL,
    term bytea NOT NULL,
    holders bigint NOT NULL
)
WITH (fillfactor='70');
CREATE TABLE rag.version (
    item bigint NOT NULL,
    version integer NOT NULL,
    record text NOT NULL
);
INSERT INTO rag.cited VALUES (1, '\x7372632f6e61c3af7665edb3bf2e7079', '\x2f7265706f7369746f726965732f7368656c66', '\x62626262626262626262626262626262626262626262626262626262626262626262626262626262');
INSERT INTO rag.cited VALUES (14, '\x7372632f6e61c3af7665edb3bf2e7079', '\x2f7265706f7369746f726965732f7368656c66', '\x62626262626262626262626262626262626262626262626262626262626262626262626262626262');
INSERT INTO rag.conversation VALUES (1, 1, '\x6d61696e', '{"id": "a5be5d72-7fb6-422d-b6e8-9a515b9a2801", "namespace": "", "name": "main", "sources": [{"location": "/r\udcff", "ref": "v1", "include": [], "exclude": []}], "created": "2026-01-01T12:00:00.000000+00:00", "updated": "2026-01-01T12:00:00.000000+00:00", "turn_count": 0, "message_count": 0, "ttl_s": 6000.0, "keep_last": null, "parent": null, "forked_at": null}', '2026-01-01T12:00:10.000000+00:00', '2026-01-01 13:40:10+00', 6, 7, 0, 0);
INSERT INTO rag.conversation VALUES (3, 1, '\x666f726b', '{"id": "58a8bab0-ba32-4c0a-9d24-be487c2e1d99", "namespace": "", "name": "fork", "sources": [{"location": "/r\udcff", "ref": "v1", "include": [], "exclude": []}], "created": "2026-01-01T12:00:10.000000+00:00", "updated": "2026-01-01T12:00:10.000000+00:00", "turn_count": 0, "message_count": 0, "ttl_s": 6000.0, "keep_last": null, "parent": "a5be5d72-7fb6-422d-b6e8-9a515b9a2801", "forked_at": 4}', '2026-01-01T12:00:10.000000+00:00', '2026-01-01 13:40:10+00', 7, 6, 0, 0);
INSERT INTO rag.conversation VALUES (9, 1, '\x', '{"id": "edbbad7c-6e7c-4987-b62c-a9979d54842a", "namespace": "", "name": "", "sources": [], "created": "2026-01-01T12:00:10.000000+00:00", "updated": "2026-01-01T12:00:10.000000+00:00", "turn_count": 0, "message_count": 0, "ttl_s": null, "keep_last": 2, "parent": null, "forked_at": null}', '2026-01-01T12:00:10.000000+00:00', NULL, 9, 2, 0, 0);
INSERT INTO rag.conversation VALUES (11, 1, '\x', '{"id": "0949bd36-3f5f-4527-871e-2f86d0b2be14", "namespace": "", "name": "", "sources": [], "created": "2026-01-01T12:00:10.000000+00:00", "updated": "2026-01-01T12:00:10.000000+00:00", "turn_count": 0, "message_count": 0, "ttl_s": null, "keep_last": 2, "parent": "edbbad7c-6e7c-4987-b62c-a9979d54842a", "forked_at": 1}', '2026-01-01T12:00:10.000000+00:00', NULL, 11, 5, 3, 0);
INSERT INTO rag.conversation VALUES (14, 1, '\x', '{"id": "aca0244c-421b-416c-a543-c56e83216e01", "namespace": "", "name": "", "sources": [{"location": "/r\udcff", "ref": "v1", "include": [], "exclude": []}], "created": "2026-01-01T12:00:10.000000+00:00", "updated": "2026-01-01T12:00:10.000000+00:00", "turn_count": 0, "message_count": 0, "ttl_s": 6000.0, "keep_last": null, "parent": "a5be5d72-7fb6-422d-b6e8-9a515b9a2801", "forked_at": 0}', '2026-01-01T12:00:10.000000+00:00', '2026-01-01 13:40:10+00', 12, 1, 0, 0);
INSERT INTO rag.conversation VALUES (20, 2, '\x6c6f6e67', '{"id": "e615ec81-b9a1-42d4-91c8-539bfe189095", "namespace": "ada\u0000", "name": "long", "sources": [], "created": "2026-01-01T12:00:10.000000+00:00", "updated": "2026-01-01T12:00:10.000000+00:00", "turn_count": 0, "message_count": 0, "ttl_s": null, "keep_last": null, "parent": null, "forked_at": null}', '2026-01-01T12:00:10.000000+00:00', NULL, 16, 6, 0, 0);
INSERT INTO rag.conversation VALUES (24, 2, '\x', '{"id": "49961a0a-5ccb-4722-ae75-4a2b979afacb", "namespace": "ada\u0000", "name": "", "sources": [], "created": "2026-01-01T12:00:10.000000+00:00", "updated": "2026-01-01T12:00:10.000000+00:00", "turn_count": 0, "message_count": 0, "ttl_s": null, "keep_last": null, "parent": "85ba3e79-a766-46e3-8513-f15328bbdf36", "forked_at": 0}', '2026-01-01T12:00:10.000000+00:00', NULL, 19, 1, 0, 0);
INSERT INTO rag.item OVERRIDING SYSTEM VALUE VALUES (2, 1, 1, '\x38666661373735652d383165302d346163362d393461352d396334613039366237613137', 1, 1, 4, '{"encoding": "json", "content": [{"type": "text", "text": "\u5317\u4eac ''; DROP TABLE item\u0000 \udcff \ud83d\ude00"}, {"n": [1.5, null, {}]}], "role": "assistant", "name": "\u5c0f\u660e", "mime": "application/json", "id": "8ffa775e-81e0-4ac6-94a5-9c4a096b7a17", "conversation": "a5be5d72-7fb6-422d-b6e8-9a515b9a2801", "namespace": "", "turn": "a turn", "metadata": {"": "", "\u041a\u043b\u044e\u0447": [true]}, "created": "2026-03-01T00:30:00.123456+00:00", "order": 1}', '{"\\x48494e54","\\xe58c97e4baac"}', '{"\\xe58c97e4baac","\\x64726f70","\\x7461626c","\\x6974656d"}', '{1,1,1,1}');
INSERT INTO rag.item OVERRIDING SYSTEM VALUE VALUES (3, 1, 1, '\x39653538316163622d613236362d346537642d386437322d646437386337333631663838', 1, 2, 0, '{"encoding": "base64", "content": "/wA=", "role": "user", "name": "", "mime": "text/plain", "id": "9e581acb-a266-4e7d-8d72-dd78c7361f88", "conversation": "a5be5d72-7fb6-422d-b6e8-9a515b9a2801", "namespace": "", "turn": null, "metadata": null, "created": "2026-11-23T05:43:29.734930+00:00", "order": 2}', '{}', '{}', '{}');
INSERT INTO rag.item OVERRIDING SYSTEM VALUE VALUES (4, 1, 0, '\x63373933313630372d666639612d346565652d616131642d373963636166333835353238', 1, 3, 2, '{"id": "c7931607-ff9a-4eee-aa1d-79ccaf385528", "question": "3", "question_metadata": null, "answer": "yes", "answer_metadata": null, "conversation": "a5be5d72-7fb6-422d-b6e8-9a515b9a2801", "namespace": "", "parent": null, "standalone_question": "", "citations": [], "model": "", "prompt_hash": "", "usage": {"prompt_tokens": 0, "answer_tokens": 0, "estimated": true, "cost_usd": null, "total_tokens": 0}, "complete": true, "asked": "2026-11-23T05:43:29.761198+00:00", "answered": "2026-11-23T05:43:29.761203+00:00", "user_id": null, "metadata": null, "version": 1, "order": 3}', '{}', '{"\\x33","\\x796573"}', '{1,1}');
INSERT INTO rag.item OVERRIDING SYSTEM VALUE VALUES (5, 1, 0, '\x34306233386239362d333330642d343637662d393365652d373737386432356362623764', 1, 4, 2, '{"id": "40b38b96-330d-467f-93ee-7778d25cbb7d", "question": "4", "question_metadata": null, "answer": "yes", "answer_metadata": null, "conversation": "a5be5d72-7fb6-422d-b6e8-9a515b9a2801", "namespace": "", "parent": null, "standalone_question": "", "citations": [], "model": "", "prompt_hash": "", "usage": {"prompt_tokens": 0, "answer_tokens": 0, "estimated": true, "cost_usd": null, "total_tokens": 0}, "complete": true, "asked": "2026-11-23T05:43:29.761215+00:00", "answered": "2026-11-23T05:43:29.761216+00:00", "user_id": null, "metadata": null, "version": 1, "order": 4}', '{}', '{"\\x34","\\x796573"}', '{1,1}');
INSERT INTO rag.item OVERRIDING SYSTEM VALUE VALUES (1, 1, 0, '\x63393935636231642d316630392d346363662d613934332d656230346564613138633734', 1, 0, 6, '{"id": "c995cb1d-1f09-4ccf-a943-eb04eda18c74", "question": "\u5317\u4eac <|endoftext|> ''; DROP TABLE turn\u0000\n", "question_metadata": {"tags": ["a", {"b": null}], "n": 1.5}, "answer": "", "answer_metadata": {"steps": []}, "conversation": "a5be5d72-7fb6-422d-b6e8-9a515b9a2801", "namespace": "", "parent": "an earlier turn", "standalone_question": "where is \u5317\u4eac? \ud83d\ude00", "citations": [{"n": 2, "repository": "shelf", "path": "src/na\u00efve\udcff.py", "start_line": 3, "end_line": 9, "blob": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", "commit": "cccccccccccccccccccccccccccccccccccccccc", "symbol": "put", "scope": "Shelf 0.1", "span_hash": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "dirty": true, "score": 0.1, "used": false, "location": "/repositories/shelf"}, {"n": 1, "repository": "shelf", "path": "src/na\u00efve\udcff.py", "start_line": 3, "end_line": 9, "blob": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", "commit": null, "symbol": "put", "scope": "Shelf 0.1", "span_hash": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "dirty": false, "score": 0.1, "used": true, "location": "/repositories/shelf"}], "model": "smollm2", "prompt_hash": "dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd", "usage": {"prompt_tokens": 12, "answer_tokens": 3, "estimated": false, "cost_usd": 0.00123, "total_tokens": 15}, "complete": true, "asked": "2026-02-28T22:30:00.123456+00:00", "answered": null, "user_id": "ada", "metadata": {"": "", "\u041a\u043b\u044e\u0447": true}, "version": 2, "order": 0}', '{"\\x","\\x48494e54","\\x610062","\\xedb3bf"}', '{"\\xe58c97e4baac","\\x656e646f6674657874","\\x64726f70","\\x7461626c","\\x7475726e"}', '{2,1,1,1,1}');
INSERT INTO rag.item OVERRIDING SYSTEM VALUE VALUES (7, 1, 0, '\x62343030346230322d303037322d346161642d613037302d326230643733613965313764', 1, 6, 2, '{"id": "b4004b02-0072-4aad-a070-2b0d73a9e17d", "question": "6", "question_metadata": null, "answer": "yes", "answer_metadata": null, "conversation": "a5be5d72-7fb6-422d-b6e8-9a515b9a2801", "namespace": "", "parent": null, "standalone_question": "", "citations": [], "model": "", "prompt_hash": "", "usage": {"prompt_tokens": 0, "answer_tokens": 0, "estimated": true, "cost_usd": null, "total_tokens": 0}, "complete": true, "asked": "2026-11-23T05:43:29.904275+00:00", "answered": "2026-11-23T05:43:29.904281+00:00", "user_id": null, "metadata": null, "version": 1, "order": 6}', '{}', '{"\\x36","\\x796573"}', '{1,1}');
INSERT INTO rag.item OVERRIDING SYSTEM VALUE VALUES (8, 1, 0, '\x32343033393032642d613037312d346438332d396438652d653631313534636365666133', 3, 5, 3, '{"id": "2403902d-a071-4d83-9d8e-e61154ccefa3", "question": "f5", "question_metadata": null, "answer": "yes", "answer_metadata": null, "conversation": "58a8bab0-ba32-4c0a-9d24-be487c2e1d99", "namespace": "", "parent": null, "standalone_question": "", "citations": [], "model": "", "prompt_hash": "", "usage": {"prompt_tokens": 0, "answer_tokens": 0, "estimated": true, "cost_usd": null, "total_tokens": 0}, "complete": true, "asked": "2026-11-23T05:43:29.922415+00:00", "answered": "2026-11-23T05:43:29.922420+00:00", "user_id": null, "metadata": null, "version": 1, "order": 5}', '{}', '{"\\x35","\\x6635","\\x796573"}', '{1,1,1}');
INSERT INTO rag.item OVERRIDING SYSTEM VALUE VALUES (9, 1, 0, '\x64316632353536612d633563652d343132392d616461392d666362383139663662663434', 9, 0, 2, '{"id": "d1f2556a-c5ce-4129-ada9-fcb819f6bf44", "question": "0", "question_metadata": null, "answer": "yes", "answer_metadata": null, "conversation": "edbbad7c-6e7c-4987-b62c-a9979d54842a", "namespace": "", "parent": null, "standalone_question": "", "citations": [], "model": "", "prompt_hash": "", "usage": {"prompt_tokens": 0, "answer_tokens": 0, "estimated": true, "cost_usd": null, "total_tokens": 0}, "complete": true, "asked": "2026-11-23T05:43:29.968467+00:00", "answered": "2026-11-23T05:43:29.968474+00:00", "user_id": null, "metadata": null, "version": 1, "order": 0}', '{}', '{"\\x30","\\x796573"}', '{1,1}');
INSERT INTO rag.item OVERRIDING SYSTEM VALUE VALUES (10, 1, 0, '\x39636232373463302d306338622d343562612d393934632d353863346463363839396239', 9, 1, 2, '{"id": "9cb274c0-0c8b-45ba-994c-58c4dc6899b9", "question": "1", "question_metadata": null, "answer": "yes", "answer_metadata": null, "conversation": "edbbad7c-6e7c-4987-b62c-a9979d54842a", "namespace": "", "parent": null, "standalone_question": "", "citations": [], "model": "", "prompt_hash": "", "usage": {"prompt_tokens": 0, "answer_tokens": 0, "estimated": true, "cost_usd": null, "total_tokens": 0}, "complete": true, "asked": "2026-11-23T05:43:29.968487+00:00", "answered": "2026-11-23T05:43:29.968488+00:00", "user_id": null, "metadata": null, "version": 1, "order": 1}', '{}', '{"\\x31","\\x796573"}', '{1,1}');
INSERT INTO rag.item OVERRIDING SYSTEM VALUE VALUES (13, 1, 0, '\x63333430303337312d363364382d346561362d383664312d653066653938363562356435', 11, 4, 2, '{"id": "c3400371-63d8-4ea6-86d1-e0fe9865b5d5", "question": "4", "question_metadata": null, "answer": "yes", "answer_metadata": null, "conversation": "0949bd36-3f5f-4527-871e-2f86d0b2be14", "namespace": "", "parent": null, "standalone_question": "", "citations": [], "model": "", "prompt_hash": "", "usage": {"prompt_tokens": 0, "answer_tokens": 0, "estimated": true, "cost_usd": null, "total_tokens": 0}, "complete": true, "asked": "2026-11-23T05:43:30.020227+00:00", "answered": "2026-11-23T05:43:30.020228+00:00", "user_id": null, "metadata": null, "version": 1, "order": 4}', '{}', '{"\\x34","\\x796573"}', '{1,1}');
INSERT INTO rag.item OVERRIDING SYSTEM VALUE VALUES (15, 2, 0, '\x62623362396432632d616238662d346363372d616362322d626366333637383438303863', 20, 1, 5, '{"id": "bb3b9d2c-ab8f-4cc7-acb2-bcf36784808c", "question": "word0 text", "question_metadata": null, "answer": "yes", "answer_metadata": null, "conversation": "e615ec81-b9a1-42d4-91c8-539bfe189095", "namespace": "ada\u0000", "parent": null, "standalone_question": "", "citations": [], "model": "", "prompt_hash": "", "usage": {"prompt_tokens": 0, "answer_tokens": 0, "estimated": true, "cost_usd": null, "total_tokens": 0}, "complete": true, "asked": "2026-11-23T05:43:30.180620+00:00", "answered": "2026-11-23T05:43:30.180624+00:00", "user_id": null, "metadata": null, "version": 1, "order": 1}', '{"\\x6f6c64"}', '{"\\x776f7264","\\x30","\\x776f726430","\\x74657874","\\x796573"}', '{1,1,1,1,1}');
INSERT INTO rag.item OVERRIDING SYSTEM VALUE VALUES (14, 2, 0, '\x6c6f6e67206c6f6e67206c6f6e67206c6f6e67206c6f6e67206c6f6e67206c6f6e67206c6f6e67206c6f6e67206c6f6e67206c6f6e67206c6f6e67206c6f6e67206c6f6e67206c6f6e67206c6f6e67206c6f6e67206c6f6e67206c6f6e67206c6f6e67206c6f6e67206c6f6e67206c6f6e67206c6f6e67206c6f6e67206c6f6e67206c6f6e67206c6f6e67206c6f6e67206c6f6e67206c6f6e67206c6f6e67206c6f6e67206c6f6e67206c6f6e67206c6f6e67206c6f6e67206c6f6e67206c6f6e67206c6f6e6720ff994ef62a3f93e3d3356a32e2e10687b9f946065ae2f581142d8cbce4bd05b1e2', 20, 0, 6, '{"id": "long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long ", "question": "\u5317\u4eac <|endoftext|> ''; DROP TABLE turn\u0000\n", "question_metadata": {"tags": ["a", {"b": null}], "n": 1.5}, "answer": "", "answer_metadata": {"steps": []}, "conversation": "e615ec81-b9a1-42d4-91c8-539bfe189095", "namespace": "ada\u0000", "parent": "an earlier turn", "standalone_question": "where is \u5317\u4eac? \ud83d\ude00", "citations": [{"n": 2, "repository": "shelf", "path": "src/na\u00efve\udcff.py", "start_line": 3, "end_line": 9, "blob": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", "commit": "cccccccccccccccccccccccccccccccccccccccc", "symbol": "put", "scope": "Shelf 0.1", "span_hash": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "dirty": true, "score": 0.1, "used": false, "location": "/repositories/shelf"}, {"n": 1, "repository": "shelf", "path": "src/na\u00efve\udcff.py", "start_line": 3, "end_line": 9, "blob": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", "commit": null, "symbol": "put", "scope": "Shelf 0.1", "span_hash": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "dirty": false, "score": 0.1, "used": true, "location": "/repositories/shelf"}], "model": "smollm2", "prompt_hash": "dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd", "usage": {"prompt_tokens": 12, "answer_tokens": 3, "estimated": false, "cost_usd": 0.00123, "total_tokens": 15}, "complete": false, "asked": "2026-02-28T22:30:00.123456+00:00", "answered": null, "user_id": "ada", "metadata": {"": "", "\u041a\u043b\u044e\u0447": true}, "version": 1, "order": 0}', '{"\\x48494e54edb3bf","\\x6f6c64","\\x","\\x48494e54","\\x610062","\\xedb3bf"}', '{"\\xe58c97e4baac","\\x656e646f6674657874","\\x64726f70","\\x7461626c","\\x7475726e"}', '{2,1,1,1,1}');
INSERT INTO rag.item OVERRIDING SYSTEM VALUE VALUES (16, 2, 0, '\x30326233353939392d633766352d346235332d396262302d393636393637616262333335', 20, 2, 5, '{"id": "02b35999-c7f5-4b53-9bb0-966967abb335", "question": "word1 text", "question_metadata": null, "answer": "yes", "answer_metadata": null, "conversation": "e615ec81-b9a1-42d4-91c8-539bfe189095", "namespace": "ada\u0000", "parent": null, "standalone_question": "", "citations": [], "model": "", "prompt_hash": "", "usage": {"prompt_tokens": 0, "answer_tokens": 0, "estimated": true, "cost_usd": null, "total_tokens": 0}, "complete": true, "asked": "2026-11-23T05:43:30.180634+00:00", "answered": "2026-11-23T05:43:30.180635+00:00", "user_id": null, "metadata": null, "version": 1, "order": 2}', '{"\\x6f6c64"}', '{"\\x776f7264","\\x31","\\x776f726431","\\x74657874","\\x796573"}', '{1,1,1,1,1}');
INSERT INTO rag.item OVERRIDING SYSTEM VALUE VALUES (17, 2, 0, '\x66656534643532312d343639362d343131662d396632612d666232346463363635393363', 20, 3, 5, '{"id": "fee4d521-4696-411f-9f2a-fb24dc66593c", "question": "word2 text", "question_metadata": null, "answer": "yes", "answer_metadata": null, "conversation": "e615ec81-b9a1-42d4-91c8-539bfe189095", "namespace": "ada\u0000", "parent": null, "standalone_question": "", "citations": [], "model": "", "prompt_hash": "", "usage": {"prompt_tokens": 0, "answer_tokens": 0, "estimated": true, "cost_usd": null, "total_tokens": 0}, "complete": true, "asked": "2026-11-23T05:43:30.180642+00:00", "answered": "2026-11-23T05:43:30.180643+00:00", "user_id": null, "metadata": null, "version": 1, "order": 3}', '{"\\x6f6c64"}', '{"\\x776f7264","\\x32","\\x776f726432","\\x74657874","\\x796573"}', '{1,1,1,1,1}');
INSERT INTO rag.item OVERRIDING SYSTEM VALUE VALUES (18, 2, 0, '\x38636236646136612d336362662d346338322d386537622d623632396534393865343763', 20, 4, 5, '{"id": "8cb6da6a-3cbf-4c82-8e7b-b629e498e47c", "question": "word3 text", "question_metadata": null, "answer": "yes", "answer_metadata": null, "conversation": "e615ec81-b9a1-42d4-91c8-539bfe189095", "namespace": "ada\u0000", "parent": null, "standalone_question": "", "citations": [], "model": "", "prompt_hash": "", "usage": {"prompt_tokens": 0, "answer_tokens": 0, "estimated": true, "cost_usd": null, "total_tokens": 0}, "complete": true, "asked": "2026-11-23T05:43:30.180649+00:00", "answered": "2026-11-23T05:43:30.180650+00:00", "user_id": null, "metadata": null, "version": 1, "order": 4}', '{"\\x6f6c64"}', '{"\\x776f7264","\\x33","\\x776f726433","\\x74657874","\\x796573"}', '{1,1,1,1,1}');
INSERT INTO rag.item OVERRIDING SYSTEM VALUE VALUES (19, 2, 0, '\x30656237316135372d333663342d346666622d383437342d643838306464356464313534', 20, 5, 5, '{"id": "0eb71a57-36c4-4ffb-8474-d880dd5dd154", "question": "word4 text", "question_metadata": null, "answer": "yes", "answer_metadata": null, "conversation": "e615ec81-b9a1-42d4-91c8-539bfe189095", "namespace": "ada\u0000", "parent": null, "standalone_question": "", "citations": [], "model": "", "prompt_hash": "", "usage": {"prompt_tokens": 0, "answer_tokens": 0, "estimated": true, "cost_usd": null, "total_tokens": 0}, "complete": true, "asked": "2026-11-23T05:43:30.180656+00:00", "answered": "2026-11-23T05:43:30.180657+00:00", "user_id": null, "metadata": null, "version": 1, "order": 5}', '{"\\x6f6c64"}', '{"\\x776f7264","\\x34","\\x776f726434","\\x74657874","\\x796573"}', '{1,1,1,1,1}');
INSERT INTO rag.item OVERRIDING SYSTEM VALUE VALUES (20, 2, 0, '\x38613031303465622d666263612d343339302d383266312d326537383635643237613238', 22, 0, 1, '{"id": "8a0104eb-fbca-4390-82f1-2e7865d27a28", "question": "a", "question_metadata": null, "answer": "yes", "answer_metadata": null, "conversation": "85ba3e79-a766-46e3-8513-f15328bbdf36", "namespace": "ada\u0000", "parent": null, "standalone_question": "", "citations": [], "model": "", "prompt_hash": "", "usage": {"prompt_tokens": 0, "answer_tokens": 0, "estimated": true, "cost_usd": null, "total_tokens": 0}, "complete": true, "asked": "2026-11-23T05:43:30.254515+00:00", "answered": "2026-11-23T05:43:30.254523+00:00", "user_id": null, "metadata": null, "version": 1, "order": 0}', '{}', '{"\\x796573"}', '{1}');
INSERT INTO rag.origin OVERRIDING SYSTEM VALUE VALUES (1, '\x61356265356437322d376662362d343232642d623665382d396135313562396132383031', '"a5be5d72-7fb6-422d-b6e8-9a515b9a2801"', 1, 4, 2, 16, 0);
INSERT INTO rag.origin OVERRIDING SYSTEM VALUE VALUES (20, '\x65363135656338312d623961312d343264342d393163382d353339626665313839303935', '"e615ec81-b9a1-42d4-91c8-539bfe189095"', 2, 6, 0, 31, 0);
INSERT INTO rag.origin OVERRIDING SYSTEM VALUE VALUES (3, '\x35386138626162302d626133322d346330612d396432342d626534383763326531643939', '"58a8bab0-ba32-4c0a-9d24-be487c2e1d99"', 1, 1, 0, 3, 0);
INSERT INTO rag.origin OVERRIDING SYSTEM VALUE VALUES (24, '\x34393936316130612d356363622d343732322d616537352d346132623937396166616362', '"49961a0a-5ccb-4722-ae75-4a2b979afacb"', 2, 0, 0, 0, 0);
INSERT INTO rag.origin OVERRIDING SYSTEM VALUE VALUES (9, '\x65646262616437632d366537632d343938372d623632632d613939373964353438343261', '"edbbad7c-6e7c-4987-b62c-a9979d54842a"', 1, 2, 0, 4, 0);
INSERT INTO rag.origin OVERRIDING SYSTEM VALUE VALUES (22, '\x38356261336537392d613736362d343665332d383531332d663135333238626264663336', '"85ba3e79-a766-46e3-8513-f15328bbdf36"', 2, 1, 0, 1, 0);
INSERT INTO rag.origin OVERRIDING SYSTEM VALUE VALUES (11, '\x30393439626433362d336635662d343532372d383731652d326638366430623262653134', '"0949bd36-3f5f-4527-871e-2f86d0b2be14"', 1, 1, 0, 2, 0);
INSERT INTO rag.origin OVERRIDING SYSTEM VALUE VALUES (14, '\x61636130323434632d343231622d343136632d613534332d633536653833323136653031', '"aca0244c-421b-416c-a543-c56e83216e01"', 1, 0, 0, 0, 0);
INSERT INTO rag.posting VALUES (1, '\x64726f70', 1, 2, 1, 1, 1);
INSERT INTO rag.posting VALUES (1, '\x6974656d', 1, 2, 1, 1, 1);
INSERT INTO rag.posting VALUES (1, '\x7461626c', 1, 2, 1, 1, 1);
INSERT INTO rag.posting VALUES (1, '\xe58c97e4baac', 1, 2, 1, 1, 1);
INSERT INTO rag.posting VALUES (1, '\x33', 3, 4, 1, 0, 1);
INSERT INTO rag.posting VALUES (1, '\x34', 4, 5, 1, 0, 1);
INSERT INTO rag.posting VALUES (1, '\x796573', 3, 4, 1, 0, 1);
INSERT INTO rag.posting VALUES (1, '\x796573', 4, 5, 1, 0, 1);
INSERT INTO rag.posting VALUES (1, '\xe58c97e4baac', 0, 1, 1, 0, 2);
INSERT INTO rag.posting VALUES (1, '\x656e646f6674657874', 0, 1, 1, 0, 1);
INSERT INTO rag.posting VALUES (1, '\x64726f70', 0, 1, 1, 0, 1);
INSERT INTO rag.posting VALUES (1, '\x7461626c', 0, 1, 1, 0, 1);
INSERT INTO rag.posting VALUES (1, '\x7475726e', 0, 1, 1, 0, 1);
INSERT INTO rag.posting VALUES (1, '\x36', 6, 7, 1, 0, 1);
INSERT INTO rag.posting VALUES (1, '\x796573', 6, 7, 1, 0, 1);
INSERT INTO rag.posting VALUES (1, '\x35', 5, 8, 3, 0, 1);
INSERT INTO rag.posting VALUES (1, '\x6635', 5, 8, 3, 0, 1);
INSERT INTO rag.posting VALUES (1, '\x796573', 5, 8, 3, 0, 1);
INSERT INTO rag.posting VALUES (1, '\x30', 0, 9, 9, 0, 1);
INSERT INTO rag.posting VALUES (1, '\x31', 1, 10, 9, 0, 1);
INSERT INTO rag.posting VALUES (1, '\x796573', 0, 9, 9, 0, 1);
INSERT INTO rag.posting VALUES (1, '\x796573', 1, 10, 9, 0, 1);
INSERT INTO rag.posting VALUES (1, '\x34', 4, 13, 11, 0, 1);
INSERT INTO rag.posting VALUES (1, '\x796573', 4, 13, 11, 0, 1);
INSERT INTO rag.posting VALUES (2, '\x64726f70', 0, 14, 20, 0, 1);
INSERT INTO rag.posting VALUES (2, '\x656e646f6674657874', 0, 14, 20, 0, 1);
INSERT INTO rag.posting VALUES (2, '\x7461626c', 0, 14, 20, 0, 1);
INSERT INTO rag.posting VALUES (2, '\x7475726e', 0, 14, 20, 0, 1);
INSERT INTO rag.posting VALUES (2, '\xe58c97e4baac', 0, 14, 20, 0, 2);
INSERT INTO rag.posting VALUES (2, '\x30', 1, 15, 20, 0, 1);
INSERT INTO rag.posting VALUES (2, '\x31', 2, 16, 20, 0, 1);
INSERT INTO rag.posting VALUES (2, '\x32', 3, 17, 20, 0, 1);
INSERT INTO rag.posting VALUES (2, '\x33', 4, 18, 20, 0, 1);
INSERT INTO rag.posting VALUES (2, '\x34', 5, 19, 20, 0, 1);
INSERT INTO rag.posting VALUES (2, '\x74657874', 1, 15, 20, 0, 1);
INSERT INTO rag.posting VALUES (2, '\x74657874', 2, 16, 20, 0, 1);
INSERT INTO rag.posting VALUES (2, '\x74657874', 3, 17, 20, 0, 1);
INSERT INTO rag.posting VALUES (2, '\x74657874', 4, 18, 20, 0, 1);
INSERT INTO rag.posting VALUES (2, '\x74657874', 5, 19, 20, 0, 1);
INSERT INTO rag.posting VALUES (2, '\x776f7264', 1, 15, 20, 0, 1);
INSERT INTO rag.posting VALUES (2, '\x776f7264', 2, 16, 20, 0, 1);
INSERT INTO rag.posting VALUES (2, '\x776f7264', 3, 17, 20, 0, 1);
INSERT INTO rag.posting VALUES (2, '\x776f7264', 4, 18, 20, 0, 1);
INSERT INTO rag.posting VALUES (2, '\x776f7264', 5, 19, 20, 0, 1);
INSERT INTO rag.posting VALUES (2, '\x776f726430', 1, 15, 20, 0, 1);
INSERT INTO rag.posting VALUES (2, '\x776f726431', 2, 16, 20, 0, 1);
INSERT INTO rag.posting VALUES (2, '\x776f726432', 3, 17, 20, 0, 1);
INSERT INTO rag.posting VALUES (2, '\x776f726433', 4, 18, 20, 0, 1);
INSERT INTO rag.posting VALUES (2, '\x776f726434', 5, 19, 20, 0, 1);
INSERT INTO rag.posting VALUES (2, '\x796573', 1, 15, 20, 0, 1);
INSERT INTO rag.posting VALUES (2, '\x796573', 2, 16, 20, 0, 1);
INSERT INTO rag.posting VALUES (2, '\x796573', 3, 17, 20, 0, 1);
INSERT INTO rag.posting VALUES (2, '\x796573', 4, 18, 20, 0, 1);
INSERT INTO rag.posting VALUES (2, '\x796573', 5, 19, 20, 0, 1);
INSERT INTO rag.posting VALUES (2, '\x796573', 0, 20, 22, 0, 1);
INSERT INTO rag.record VALUES (1, '\x73', '\x6b', '"s"', '"k"', '\x00ff', NULL);
INSERT INTO rag.record VALUES (1, '\x73', '\xedb3bf', '"s"', '"\udcff"', '\x', NULL);
INSERT INTO rag.record VALUES (1, '\x74', '\x736f6f6e', '"t"', '"soon"', '\x31', '2026-01-01 12:10:10+00');
INSERT INTO rag.schema_version VALUES (3);
INSERT INTO rag.space OVERRIDING SYSTEM VALUE VALUES (1, '\x', '""');
INSERT INTO rag.space OVERRIDING SYSTEM VALUE VALUES (2, '\x61646100', '"ada\u0000"');
INSERT INTO rag.span VALUES (3, 0, 1, 4);
INSERT INTO rag.span VALUES (3, 5, 3, NULL);
INSERT INTO rag.span VALUES (1, 0, 1, 3);
INSERT INTO rag.span VALUES (1, 6, 1, NULL);
INSERT INTO rag.span VALUES (9, 0, 9, NULL);
INSERT INTO rag.span VALUES (11, 0, 9, 1);
INSERT INTO rag.span VALUES (11, 2, 11, NULL);
INSERT INTO rag.span VALUES (14, 0, 1, 0);
INSERT INTO rag.span VALUES (14, 1, 14, NULL);
INSERT INTO rag.span VALUES (20, 0, 20, NULL);
INSERT INTO rag.span VALUES (24, 0, 22, 0);
INSERT INTO rag.span VALUES (24, 1, 24, NULL);
INSERT INTO rag.version VALUES (1, 1, '{"id": "c995cb1d-1f09-4ccf-a943-eb04eda18c74", "question": "\u5317\u4eac <|endoftext|> ''; DROP TABLE turn\u0000\n", "question_metadata": {"tags": ["a", {"b": null}], "n": 1.5}, "answer": "", "answer_metadata": {"steps": []}, "conversation": "a5be5d72-7fb6-422d-b6e8-9a515b9a2801", "namespace": "", "parent": "an earlier turn", "standalone_question": "where is \u5317\u4eac? \ud83d\ude00", "citations": [{"n": 2, "repository": "shelf", "path": "src/na\u00efve\udcff.py", "start_line": 3, "end_line": 9, "blob": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", "commit": "cccccccccccccccccccccccccccccccccccccccc", "symbol": "put", "scope": "Shelf 0.1", "span_hash": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "dirty": true, "score": 0.1, "used": false, "location": "/repositories/shelf"}, {"n": 1, "repository": "shelf", "path": "src/na\u00efve\udcff.py", "start_line": 3, "end_line": 9, "blob": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", "commit": null, "symbol": "put", "scope": "Shelf 0.1", "span_hash": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "dirty": false, "score": 0.1, "used": true, "location": "/repositories/shelf"}], "model": "smollm2", "prompt_hash": "dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd", "usage": {"prompt_tokens": 12, "answer_tokens": 3, "estimated": false, "cost_usd": 0.00123, "total_tokens": 15}, "complete": false, "asked": "2026-02-28T22:30:00.123456+00:00", "answered": null, "user_id": "ada", "metadata": {"": "", "\u041a\u043b\u044e\u0447": true}, "version": 1, "order": 0}');
SELECT pg_catalog.setval('rag.item_key_seq', 21, true);
SELECT pg_catalog.setval('rag.origin_key_seq', 26, true);
SELECT pg_catalog.setval('rag.space_key_seq', 2, true);
SELECT pg_catalog.setval('rag.write_number', 19, true);
ALTER TABLE ONLY rag.cited
    ADD CONSTRAINT cited_pkey PRIMARY KEY (item, path, location, blob);
ALTER TABLE ONLY rag.conversation
    ADD CONSTRAINT conversation_pkey PRIMARY KEY (key);
ALTER TABLE ONLY rag.item
    ADD CONSTRAINT item_pkey PRIMARY KEY (key);
ALTER TABLE ONLY rag.origin
    ADD CONSTRAINT origin_pkey PRIMARY KEY (key);
ALTER TABLE ONLY rag.origin
    ADD CONSTRAINT origin_slot_key UNIQUE (slot);
ALTER TABLE ONLY rag.posting
    ADD CONSTRAINT posting_pkey PRIMARY KEY (space, term, number, item) INCLUDE (origin, kind, count);
ALTER TABLE ONLY rag.record
    ADD CONSTRAINT record_pkey PRIMARY KEY (space, shelf, key);
ALTER TABLE ONLY rag.space
    ADD CONSTRAINT space_pkey PRIMARY KEY (key);
ALTER TABLE ONLY rag.space
    ADD CONSTRAINT space_slot_key UNIQUE (slot);
ALTER TABLE ONLY rag.span
    ADD CONSTRAINT span_pkey PRIMARY KEY (conversation, first);
ALTER TABLE ONLY rag.tally
    ADD CONSTRAINT tally_pkey PRIMARY KEY (origin, term);
ALTER TABLE ONLY rag.version
    ADD CONSTRAINT version_pkey PRIMARY KEY (item, version);
CREATE INDEX cited_blob ON rag.cited USING btree (blob);
CREATE INDEX cited_path ON rag.cited USING btree (path);
CREATE INDEX conversation_expires ON rag.conversation USING btree (expires) WHERE (expires IS NOT NULL);
CREATE UNIQUE INDEX conversation_name ON rag.conversation USING btree (space, name) WHERE (name <> '\x'::bytea);
CREATE INDEX conversation_written ON rag.conversation USING btree (space, written);
CREATE UNIQUE INDEX item_id ON rag.item USING btree (space, kind, id);
CREATE UNIQUE INDEX item_place ON rag.item USING btree (origin, kind, number) INCLUDE (length);
CREATE INDEX origin_space ON rag.origin USING btree (space);
CREATE INDEX record_expires ON rag.record USING btree (expires) WHERE (expires IS NOT NULL);
CREATE INDEX span_origin ON rag.span USING btree (origin);
ALTER TABLE ONLY rag.cited
    ADD CONSTRAINT cited_item_fkey FOREIGN KEY (item) REFERENCES rag.item(key) ON DELETE CASCADE;
ALTER TABLE ONLY rag.span
    ADD CONSTRAINT span_conversation_fkey FOREIGN KEY (conversation) REFERENCES rag.conversation(key) ON DELETE CASCADE;
ALTER TABLE ONLY rag.version
    ADD CONSTRAINT version_item_fkey FOREIGN KEY (item) REFERENCES rag.item(key) ON DELETE CASCADE;
