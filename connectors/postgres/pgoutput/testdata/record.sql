-- What recorded.hex and binary.hex were recorded from; run by record.sh.
CREATE SCHEMA "Lager Süd";
CREATE TYPE mood AS ENUM ('sad', 'happy', 'überglücklich');
CREATE DOMAIN posint AS integer CHECK (VALUE > 0);
CREATE TABLE orders (id bigint PRIMARY KEY, note text, at timestamptz, total numeric(12,2), m mood, p posint, name varchar(20));
CREATE TABLE wide (id int PRIMARY KEY, n int, big text);
ALTER TABLE wide ALTER big SET STORAGE EXTERNAL;
CREATE TABLE wide_full (id int PRIMARY KEY, n int, big text);
ALTER TABLE wide_full ALTER big SET STORAGE EXTERNAL;
ALTER TABLE wide_full REPLICA IDENTITY FULL;
CREATE TABLE keyless (a int, b text);
CREATE TABLE by_index (a int NOT NULL, b text);
CREATE UNIQUE INDEX by_index_a ON by_index (a);
ALTER TABLE by_index REPLICA IDENTITY USING INDEX by_index_a;
CREATE TABLE nothing (a int);
ALTER TABLE nothing REPLICA IDENTITY NOTHING;
CREATE TABLE "Lager Süd"."Größe ""Ü"" 商品" ("Schlüssel" int PRIMARY KEY, "名前" text, "a.b c" bytea);
CREATE TABLE no_columns ();
CREATE TABLE child (id int PRIMARY KEY, parent bigint REFERENCES orders);
CREATE PUBLICATION p FOR ALL TABLES;
SELECT pg_replication_origin_create('herkunft');
SELECT pg_create_logical_replication_slot(s, 'pgoutput') FROM unnest(ARRAY['text', 'binary']) s;

BEGIN;
INSERT INTO orders VALUES (1, 'first', '2024-02-29 12:34:56.789+00', 12.30, 'happy', 7, 'Müller'), (2, '', NULL, NULL, 'überglücklich', NULL, NULL);
UPDATE orders SET note = 'changed' WHERE id = 1;
UPDATE orders SET id = 3 WHERE id = 2;
DELETE FROM orders WHERE id = 3;
COMMIT;

BEGIN;
INSERT INTO wide VALUES (1, 1, repeat('x', 3000));
UPDATE wide SET n = 2;
UPDATE wide SET id = 2;
DELETE FROM wide;
INSERT INTO wide_full VALUES (1, 1, repeat('y', 3000));
UPDATE wide_full SET n = 2;
DELETE FROM wide_full;
COMMIT;

BEGIN;
INSERT INTO keyless VALUES (1, 'a'), (NULL, NULL);
INSERT INTO by_index VALUES (1, 'a');
UPDATE by_index SET b = 'b';
UPDATE by_index SET a = 2;
DELETE FROM by_index;
INSERT INTO nothing VALUES (1);
INSERT INTO no_columns DEFAULT VALUES;
COMMIT;

BEGIN;
INSERT INTO "Lager Süd"."Größe ""Ü"" 商品" VALUES (1, '値', '\x00ff10');
UPDATE "Lager Süd"."Größe ""Ü"" 商品" SET "Schlüssel" = 2;
COMMIT;

SELECT pg_logical_emit_message(false, 'außen', 'not transactional');
BEGIN;
SELECT pg_logical_emit_message(true, 'tx', 'first'), pg_logical_emit_message(true, '', ''), pg_logical_emit_message(true, 'raw', '\x00ff'::bytea);
SELECT pg_logical_emit_message(false, 'ahead', 'of its transaction');
INSERT INTO keyless VALUES (2, 'b');
COMMIT;

TRUNCATE keyless;
TRUNCATE orders, wide RESTART IDENTITY CASCADE;

-- A relation is sent again after it changed.
ALTER TABLE keyless ADD c date DEFAULT '2024-01-01';
INSERT INTO keyless VALUES (3, 'c');
ALTER TABLE keyless DROP b;
INSERT INTO keyless VALUES (4, NULL);

SELECT pg_replication_origin_session_setup('herkunft');
BEGIN;
SELECT pg_replication_origin_xact_setup('16/B374D848', '2024-01-01 00:00:00+00');
INSERT INTO keyless VALUES (5, 'infinity');
COMMIT;
SELECT pg_replication_origin_session_reset();
