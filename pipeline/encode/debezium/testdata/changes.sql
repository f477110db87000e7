-- The changes of the recording, each statement a transaction where BEGIN does not say otherwise.
INSERT INTO all_types VALUES (1, true, 12, 345, 6789012345, 4000000000, 1.25, 3.141592653589793,
 12345.67, 12345, 12345678901234567890.0123456789, 1.500, 1234.56,
 'text é', 'varchar', 'unbounded', 'ab', 'bp  ', 'a_name', 'x', '\x00ff10',
 '2024-02-29', '12:34:56.789012', '12:34:56', '12:34:56.789', '12:34:56.789012+02:30', '12:34:56.789-08',
 '2024-02-29 12:34:56.789012', '2024-02-29 12:34:56', '2024-02-29 12:34:56.789', '2024-02-29 12:34:56.100000', '2024-02-29 12:34:56.789012+02', '2024-02-29 12:34:56.789+02',
 '1 year 2 mons 3 days 04:05:06.789012', '3 days 04:05:06.789', '0C5F6A1E-3B2D-4C8A-9E7F-123456789abc', '{"b": 1,  "a":[1,2]}', '{"b": 1, "a": [1, 2]}', '<a>x</a>', B'1', B'101010101010', repeat('1100110', 10)::bit(70), B'10101', B'1010101010101',
 '192.168.1.5/24', '10.0.0.0/8', '08:00:2b:01:02:03', '08:00:2b:01:02:03:04:05', '[1,10)', '[1,10)', '[1.5,2.5]', '["2024-01-01 00:00:00","2024-01-02 00:00:00")', '["2024-01-01 00:00:00+00","2024-01-02 00:00:00+00")', '[2024-01-01,2024-02-01)',
 'a=>1, b=>NULL, "c d"=>"x\"y"', 'CaseInsensitive', 'Top.Science.Astronomy', '978-0-393-04002-9', 'a fat cat sat', 'it''s "fine"', 'domain text', 12.345, '(1.5,-2.5)');
INSERT INTO all_types (id) VALUES (2);
INSERT INTO all_types (id, b, i2, i4, i8, o, f4, f8, n_ps, n_p, n_big, n, m, t, vc, c, by, dt, tm, tm3, tmtz, ts, ts3, tstz, iv, bt1, bt, vb, r_i4, hs, jb, tsv)
 VALUES (3, false, -32768, -2147483648, -9223372036854775808, 0, -1e-30, -1e300, -12345.67, -12345, -12345678901234567890.0123456789, -0.00001, -1234.56, '', '', '', '',
 '0001-01-01', '00:00:00', '00:00:00', '00:00:00+14', '0001-01-01 00:00:00', '1969-12-31 23:59:59.999', '0001-01-01 00:00:00+00', '-1 mons -2 days -00:00:00.000001', B'0', B'000000000000', B'', 'empty', '', '{}', '');
INSERT INTO all_types (id, i2, i4, i8, o, f4, f8, n_ps, n, m, dt, tm, tm0, tmtz, ts, ts0, ts6, tstz, iv, hs, ine, js)
 VALUES (4, 32767, 2147483647, 9223372036854775807, 4294967295, 3.4028235e38, 1.7976931348623157e308, 99999999.99, 123456789012345678901234567890.123456789, 92233720368547758.07,
 '9999-12-31', '24:00:00', '23:59:59', '23:59:59.999999-12', '9999-12-31 23:59:59.999999', '9999-12-31 23:59:59', '2262-04-12 00:00:00', '9999-12-31 23:59:59.999999+00', '100 years 00:00:00.5', 'k=>""', '2001:db8::1', '[]');
INSERT INTO all_types (id, n, f4, f8, tm, tm3, ts, ts3, tstz, tmtz, iv, md) VALUES (5, 100, 0.1, 0.1, '10:00:00.5', '10:00', '2020-01-01', '2020-01-01', '2020-01-01 00:00:00.120+00', '10:00+00', '0', 'sad');
INSERT INTO all_types (id, n, f4, f8, ts, tstz, iv) VALUES (6, 0, 100, 1e21, '1960-06-06 06:06:06.000001', '1960-06-06 06:06:06.000001+00', '-04:05:06.5');
UPDATE all_types SET t = 'changed', i4 = NULL WHERE id = 1;
DELETE FROM all_types WHERE id = 3;
INSERT INTO unknowns VALUES (1, '{[1,3),[5,7)}', '{1,2,3}', '[(0,0),(1,1)]', '(1,1),(0,0)', '[(0,0),(1,1)]', '((0,0),(1,1),(1,0))', '<(0,0),2>', '16/B374D848', 'all_types', '$.a[*]', 'fat & rat', '(1,x)', 'Top.*', '123');
INSERT INTO unknowns (id) VALUES (2);
INSERT INTO arrays VALUES (1, '{t,f,NULL}', '{1,-2}', '{1,NULL,3}', '{9000000000}', '{1,4000000000}', '{1.5,-2}', '{0.1,1e300}', '{1.20,3.4}', '{1.20,30}', '{"a b",NULL,"q\"x","",NULL,"NULL"}', '{x,y}', '{ab}', '{"\\x00ff"}',
 '{2024-02-29}', '{12:34:56.789012}', '{12:34:56.789012+02:30}', '{"2024-02-29 12:34:56.789012"}', '{"2024-02-29 12:34:56.789"}', '{"2024-02-29 12:34:56.789012+02"}', '{0c5f6a1e-3b2d-4c8a-9e7f-123456789abc}', '{"{\"a\": 1}","[1]"}', '{"{\"a\": 1}"}',
 '{192.168.1.5/24}', '{10.0.0.0/8}', '{08:00:2b:01:02:03}', '{"[1,10)",empty}', '{sad,"it''s \"fine\""}', '{Ci}');
INSERT INTO arrays (id) VALUES (2);
INSERT INTO arrays (id, b, i4, t) VALUES (3, '{}', '{}', '{}');
INSERT INTO arrays (id, i4, t) VALUES (4, '{{1,2},{3,4}}', '[2:3]={a,b}');
INSERT INTO arrays_other VALUES (1, '{1.5}', '{"1 day"}', '{1010}', '{10}', '{<a/>}', '{a=>1}', '{a.b}', '{"(1,2)"}', '{d}');
INSERT INTO required VALUES (1, true, 12, 345, 6789012345, 17, 1.25, 3.5, 12.34, 1.50, 9.99, 'text', 'varchar', 'char', '\x01', '2024-02-29', '12:34:56.789', '12:34:56.789', '12:34:56+00', '2024-02-29 12:34:56', '2024-02-29 12:34:56', '2024-02-29 12:34:56+00',
 '1 day', '0c5f6a1e-3b2d-4c8a-9e7f-123456789abc', '{}', '{}', '<a/>', B'1', B'111100001111', B'1', '10.0.0.1', '10.0.0.0/8', '08:00:2b:01:02:03', '08:00:2b:01:02:03:04:05', '[1,2)', '[1,2)', '["2024-01-01 00:00:00","2024-01-02 00:00:00")', 'a=>1', 'Ci', 'a.b', 'a', 'ok', 'd', 1.5, '(1,2)', '{a}', '{1}');
UPDATE required SET id = 2 WHERE id = 1;
DELETE FROM required WHERE id = 2;
INSERT INTO defaults (id, ts_now, ts_cur, uu_r, i8s) VALUES (1, '2024-01-01', '2024-01-01+00', '00000000-0000-0000-0000-000000000002', 5);
UPDATE defaults SET b = false, bn = NULL, i2 = NULL, t = NULL, n_ps = NULL, dt = NULL, jb = NULL WHERE id = 1;
DELETE FROM defaults WHERE id = 1;
ALTER TABLE toast ALTER t SET STORAGE EXTERNAL, ALTER by SET STORAGE EXTERNAL, ALTER js SET STORAGE EXTERNAL, ALTER jb SET STORAGE EXTERNAL, ALTER x SET STORAGE EXTERNAL, ALTER n SET STORAGE EXTERNAL, ALTER vb SET STORAGE EXTERNAL, ALTER hs SET STORAGE EXTERNAL, ALTER ci SET STORAGE EXTERNAL, ALTER tsv SET STORAGE EXTERNAL, ALTER vc SET STORAGE EXTERNAL, ALTER at SET STORAGE EXTERNAL, ALTER ai4 SET STORAGE EXTERNAL, ALTER ai8 SET STORAGE EXTERNAL, ALTER ai2 SET STORAGE EXTERNAL, ALTER af8 SET STORAGE EXTERNAL, ALTER au SET STORAGE EXTERNAL, ALTER adt SET STORAGE EXTERNAL, ALTER ats SET STORAGE EXTERNAL, ALTER atz SET STORAGE EXTERNAL, ALTER an SET STORAGE EXTERNAL, ALTER ab SET STORAGE EXTERNAL, ALTER aby SET STORAGE EXTERNAL, ALTER ajb SET STORAGE EXTERNAL, ALTER req SET STORAGE EXTERNAL;
ALTER TABLE toast SET (toast_tuple_target = 128);
INSERT INTO toast VALUES (1, 0, repeat('t', 300), decode(repeat('ab', 300), 'hex'), ('"' || repeat('j', 300) || '"')::json, ('"' || repeat('j', 300) || '"')::jsonb, ('<a>' || repeat('x', 300) || '</a>')::xml, (repeat('9', 900))::numeric, repeat('10', 1200)::varbit, hstore('k', repeat('h', 300)), repeat('c', 300), ('a' || repeat('w', 300))::tsvector, repeat('v', 300),
 array_fill('el'::text, ARRAY[60]), array_fill(4, ARRAY[60]), array_fill(8::bigint, ARRAY[60]), array_fill(2::smallint, ARRAY[120]), array_fill(0.5::float8, ARRAY[60]), array_fill('0c5f6a1e-3b2d-4c8a-9e7f-123456789abc'::uuid, ARRAY[30]), array_fill('2024-02-29'::date, ARRAY[60]), array_fill('2024-02-29 01:02:03'::timestamp, ARRAY[60]), array_fill('2024-02-29 01:02:03+00'::timestamptz, ARRAY[60]), array_fill(1.25::numeric(10,2), ARRAY[60]), array_fill(true, ARRAY[300]), array_fill('\x0102'::bytea, ARRAY[60]), array_fill('{}'::jsonb, ARRAY[60]), repeat('r', 300));
UPDATE toast SET touched = 1 WHERE id = 1;
UPDATE toast SET touched = 2, t = 'short' WHERE id = 1;
UPDATE toast SET id = 2 WHERE id = 1;
DELETE FROM toast WHERE id = 2;
ALTER TABLE toast_full ALTER t SET STORAGE EXTERNAL, ALTER by SET STORAGE EXTERNAL, ALTER at SET STORAGE EXTERNAL;
ALTER TABLE toast_full SET (toast_tuple_target = 128);
INSERT INTO toast_full VALUES (1, 0, repeat('t', 300), decode(repeat('ab', 300), 'hex'), array_fill('el'::text, ARRAY[60]));
UPDATE toast_full SET touched = 1 WHERE id = 1;
UPDATE toast_full SET id = 2 WHERE id = 1;
DELETE FROM toast_full WHERE id = 2;
BEGIN;
INSERT INTO full_pk VALUES (1, 'one', 1), (2, NULL, 2);
UPDATE full_pk SET v = 'uno' WHERE id = 1;
UPDATE full_pk SET v = 'uno' WHERE id = 1;
UPDATE full_pk SET id = 3 WHERE id = 2;
INSERT INTO composite VALUES (1, 'x', 'vx', NULL), (2, 'y', 'vy', 5);
UPDATE composite SET v = 'vx2' WHERE a = 1;
UPDATE composite SET b = 'z' WHERE a = 1;
DELETE FROM full_pk WHERE id = 1;
DELETE FROM composite WHERE a = 2;
COMMIT;
BEGIN;
INSERT INTO keyless VALUES ('a', 1), (NULL, NULL);
UPDATE keyless SET n = 2 WHERE v = 'a';
DELETE FROM keyless WHERE v IS NULL;
INSERT INTO keyed VALUES (1, 'x', 'v1');
UPDATE keyed SET v = 'v2';
UPDATE keyed SET a = 2;
DELETE FROM keyed;
INSERT INTO indexed VALUES (1, 'x', 'v1');
UPDATE indexed SET v = 'v2';
UPDATE indexed SET b = 'y';
DELETE FROM indexed;
COMMIT;
BEGIN;
INSERT INTO full_pk VALUES (10, 'rolled back', 1);
ROLLBACK;
BEGIN;
INSERT INTO excluded VALUES (1, 'x');
COMMIT;
BEGIN;
INSERT INTO excluded VALUES (2, 'x');
INSERT INTO full_pk VALUES (11, 'with excluded', 1);
SAVEPOINT s;
INSERT INTO full_pk VALUES (12, 'lost', 1);
ROLLBACK TO s;
INSERT INTO full_pk VALUES (13, 'after savepoint', 1);
COMMIT;
BEGIN;
INSERT INTO full_pk VALUES (14, 'before message', 1);
SELECT pg_logical_emit_message(true, 'my-prefix', 'transactional');
INSERT INTO full_pk VALUES (15, 'after message', 1);
COMMIT;
SELECT pg_logical_emit_message(false, 'other', 'not transactional');
SELECT pg_logical_emit_message(true, 'bytes', '\x00ff01'::bytea);
INSERT INTO "Odd Näme-1" VALUES (1, 'g', 's');
UPDATE "Odd Näme-1" SET "I d" = 2;
INSERT INTO generated (a) VALUES (21);
UPDATE generated SET a = 22;
INSERT INTO emptied VALUES (1, 'x');
TRUNCATE emptied;
INSERT INTO emptied VALUES (2, 'y');
INSERT INTO special VALUES (1, 'infinity', 'infinity', 'infinity', 'NaN', 'NaN');
INSERT INTO special VALUES (2, '-infinity', '-infinity', '-infinity', 'Infinity', '-Infinity');
INSERT INTO special VALUES (3, '0044-03-15 BC', '0044-03-15 12:00:00 BC', '0044-03-15 12:00:00+00 BC', '-0', '-0');
INSERT INTO special VALUES (4, '12024-01-01', '12024-01-01 00:00:00', '12024-01-01 00:00:00+00', 0, 0);
INSERT INTO special_numeric VALUES (1, 'NaN', NULL);
INSERT INTO special_numeric VALUES (2, NULL, 'NaN');
INSERT INTO special_numeric VALUES (3, 'Infinity', NULL);
INSERT INTO special_numeric VALUES (4, 1, 1);
INSERT INTO endmark VALUES (1);
