-- The tables of the recording. Statements end with a semicolon at the end of a line.
CREATE EXTENSION hstore;
CREATE EXTENSION citext;
CREATE EXTENSION ltree;
CREATE EXTENSION isn;
CREATE TYPE mood AS ENUM ('sad', 'ok', 'it''s "fine"');
CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN dom_text AS text;
CREATE DOMAIN dom_num AS numeric(8,3);
CREATE TABLE all_types (id int PRIMARY KEY,
 b boolean, i2 smallint, i4 int, i8 bigint, o oid, f4 real, f8 double precision,
 n_ps numeric(10,2), n_p numeric(5), n_big numeric(30,10), n numeric, m money,
 t text, vc varchar(20), vcu varchar, c char(5), bpc bpchar, nm name, ch "char", by bytea,
 dt date, tm time, tm0 time(0), tm3 time(3), tmtz timetz, tmtz3 timetz(3),
 ts timestamp, ts0 timestamp(0), ts3 timestamp(3), ts6 timestamp(6), tstz timestamptz, tstz3 timestamptz(3),
 iv interval, ivp interval day to second(3), uu uuid, js json, jb jsonb, x xml, bt1 bit(1), bt bit(12), bt70 bit(70), vb varbit(12), vbu varbit,
 ine inet, cid cidr, mac macaddr, mac8 macaddr8, r_i4 int4range, r_i8 int8range, r_n numrange, r_ts tsrange, r_tstz tstzrange, r_d daterange,
 hs hstore, ci citext, lt ltree, isb isbn, tsv tsvector, md mood, d_t dom_text, d_n dom_num, p point);
CREATE TABLE unknowns (id int PRIMARY KEY, mr int4multirange, li line, ls lseg, bx box, pa path, po polygon, cr circle,
 lsn pg_lsn, rc regclass, jp jsonpath, tsq tsquery, pr pair, lq lquery, xi xid);
CREATE TABLE arrays (id int PRIMARY KEY, b boolean[], i2 smallint[], i4 int[], i8 bigint[], o oid[], f4 real[], f8 double precision[],
 n_ps numeric(10,2)[], n numeric[], t text[], vc varchar(10)[], c char(5)[], by bytea[],
 dt date[], tm time[], tmtz timetz[], ts timestamp[], ts3 timestamp(3)[], tstz timestamptz[], uu uuid[], js json[], jb jsonb[],
 ine inet[], cid cidr[], mac macaddr[], r_i4 int4range[], md mood[], ci citext[]);
CREATE TABLE arrays_other (id int PRIMARY KEY, m money[], iv interval[], bt bit(4)[], vb varbit[], x xml[], hs hstore[], lt ltree[], p point[], d_t dom_text[]);
CREATE TABLE required (id int PRIMARY KEY,
 b boolean NOT NULL, i2 smallint NOT NULL, i4 int NOT NULL, i8 bigint NOT NULL, o oid NOT NULL, f4 real NOT NULL, f8 double precision NOT NULL,
 n_ps numeric(10,2) NOT NULL, n numeric NOT NULL, m money NOT NULL, t text NOT NULL, vc varchar(20) NOT NULL, c char(5) NOT NULL, by bytea NOT NULL,
 dt date NOT NULL, tm time NOT NULL, tm3 time(3) NOT NULL, tmtz timetz NOT NULL, ts timestamp NOT NULL, ts3 timestamp(3) NOT NULL, tstz timestamptz NOT NULL,
 iv interval NOT NULL, uu uuid NOT NULL, js json NOT NULL, jb jsonb NOT NULL, x xml NOT NULL, bt1 bit(1) NOT NULL, bt bit(12) NOT NULL, vb varbit(12) NOT NULL,
 ine inet NOT NULL, cid cidr NOT NULL, mac macaddr NOT NULL, mac8 macaddr8 NOT NULL, r_i4 int4range NOT NULL, r_n numrange NOT NULL, r_ts tsrange NOT NULL,
 hs hstore NOT NULL, ci citext NOT NULL, lt ltree NOT NULL, tsv tsvector NOT NULL, md mood NOT NULL, d_t dom_text NOT NULL, d_n dom_num NOT NULL, p point NOT NULL,
 at text[] NOT NULL, ai int[] NOT NULL);
CREATE TABLE defaults (id serial PRIMARY KEY,
 b boolean NOT NULL DEFAULT true, bn boolean DEFAULT false, i2 smallint DEFAULT 7, i4 int NOT NULL DEFAULT -3, i8 bigint DEFAULT 9000000000, f4 real DEFAULT 1.5, f8 double precision NOT NULL DEFAULT -2.25,
 n_ps numeric(10,2) DEFAULT 12.34, n_ps2 numeric(10,2) NOT NULL DEFAULT 5, n numeric DEFAULT 1.50, m money DEFAULT 9.99, t text DEFAULT 'a ''quoted'' text', t2 text NOT NULL DEFAULT '', vc varchar(20) DEFAULT 'vc', c char(5) DEFAULT 'c',
 by bytea DEFAULT '\xdead', dt date DEFAULT '2024-02-29', tm time DEFAULT '12:34:56.789', ts timestamp DEFAULT '2024-02-29 12:34:56.789', ts_now timestamp DEFAULT now(), ts_cur timestamptz NOT NULL DEFAULT current_timestamp,
 tstz timestamptz DEFAULT '2024-02-29 12:34:56.789+02', iv interval DEFAULT '1 day', uu uuid DEFAULT '00000000-0000-0000-0000-000000000001', uu_r uuid DEFAULT gen_random_uuid(), js json DEFAULT '{}', jb jsonb DEFAULT '{"a": 1}',
 bt1 bit(1) DEFAULT B'1', bt bit(4) DEFAULT B'1010', vb varbit(4) DEFAULT B'10', ine inet DEFAULT '10.0.0.1', md mood DEFAULT 'ok', d_t dom_text DEFAULT 'dom', ci citext DEFAULT 'Ci', hs hstore DEFAULT 'a=>1', at text[] DEFAULT '{}', ai int[] DEFAULT '{1,2}',
 tnull text DEFAULT NULL, expr int DEFAULT 1 + 2, i8s bigint DEFAULT nextval('defaults_id_seq'));
CREATE TABLE toast (id int PRIMARY KEY, touched int, t text, by bytea, js json, jb jsonb, x xml, n numeric, vb varbit, hs hstore, ci citext, tsv tsvector, vc varchar,
 at text[], ai4 int[], ai8 bigint[], ai2 smallint[], af8 double precision[], au uuid[], adt date[], ats timestamp[], atz timestamptz[], an numeric(10,2)[], ab boolean[], aby bytea[], ajb jsonb[], req text NOT NULL);
CREATE TABLE toast_full (id int PRIMARY KEY, touched int, t text, by bytea, at text[]);
ALTER TABLE toast_full REPLICA IDENTITY FULL;
CREATE TABLE full_pk (id int PRIMARY KEY, v text, w int NOT NULL);
ALTER TABLE full_pk REPLICA IDENTITY FULL;
CREATE TABLE composite (a int, b text, v text NOT NULL, n int, PRIMARY KEY (b, a));
CREATE TABLE keyless (v text, n int);
ALTER TABLE keyless REPLICA IDENTITY FULL;
CREATE TABLE keyed (a int NOT NULL, b text NOT NULL, v text);
ALTER TABLE keyed REPLICA IDENTITY FULL;
CREATE TABLE indexed (a int NOT NULL, b text NOT NULL, v text);
CREATE UNIQUE INDEX indexed_b ON indexed (b);
ALTER TABLE indexed REPLICA IDENTITY USING INDEX indexed_b;
CREATE TABLE "Odd Näme-1" ("I d" int PRIMARY KEY, "größe" text, "2nd" text);
CREATE TABLE generated (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a int, g int GENERATED ALWAYS AS (a * 2) STORED);
CREATE TABLE emptied (id int PRIMARY KEY, v text);
CREATE TABLE excluded (id int PRIMARY KEY, v text);
CREATE TABLE special (id int PRIMARY KEY, dt date, ts timestamp, tstz timestamptz, f4 real, f8 double precision);
CREATE TABLE special_numeric (id int PRIMARY KEY, n numeric, n_ps numeric(10,2));
CREATE TABLE endmark (id int PRIMARY KEY);
CREATE PUBLICATION golden FOR ALL TABLES;
