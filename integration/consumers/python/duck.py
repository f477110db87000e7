"""duck.py BOOTSTRAP REGISTRY: of each topic in {topic: SQL}, the JSON on standard input, loads the decoded values into a Parquet
file, that into DuckDB's table "loaded", runs the SQL, and prints a line of JSON for each row of the view "current"."""

import json
import os
import sys
import tempfile

import duckdb
from confluent_kafka.schema_registry import SchemaRegistryClient

import records

PLAIN = {"boolean": "BOOLEAN", "int": "INTEGER", "long": "BIGINT", "float": "REAL", "double": "DOUBLE", "bytes": "BLOB", "string": "VARCHAR"}
LOGICAL = {"date": "DATE", "time-micros": "TIME", "timestamp-micros": "TIMESTAMPTZ", "local-timestamp-micros": "TIMESTAMP", "uuid": "UUID"}


def sql_type(t):
    if isinstance(t, list):
        return sql_type(next(b for b in t if b != "null"))
    if isinstance(t, str):
        return PLAIN[t]
    if t["type"] == "array":
        return sql_type(t["items"]) + "[]"
    if t.get("logicalType") == "decimal":
        return "DECIMAL(%d,%d)" % (t["precision"], t["scale"])
    return LOGICAL.get(t.get("logicalType")) or PLAIN[t["type"]]


def current(bootstrap, registry, topic, sql):
    """Yields the rows of the view that the SQL makes over the topic's records."""
    schema = json.loads(SchemaRegistryClient({"url": registry}).get_latest_version(topic + "-value").schema.schema_str)
    names = [f["name"] for f in schema["fields"]]
    # Tombstones say nothing that the delete before them does not: a loader may leave them out.
    rows = [[value[n] for n in names] for _, _, value, _ in records.read(bootstrap, registry, [topic]) if value is not None]
    with duckdb.connect() as db, tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "records.parquet")
        db.execute("SET TimeZone = 'UTC'")
        db.execute("CREATE TABLE decoded(%s)" % ", ".join('"%s" %s' % (f["name"], sql_type(f["type"])) for f in schema["fields"]))
        db.executemany("INSERT INTO decoded VALUES (%s)" % ", ".join("?" * len(names)), rows)
        db.execute("COPY decoded TO '%s' (FORMAT parquet)" % file)
        db.execute("CREATE TABLE loaded AS SELECT * FROM read_parquet('%s')" % file)
        db.execute(sql)
        view = db.execute("SELECT * FROM current")
        columns = [d[0] for d in view.description]
        for r in view.fetchall():
            yield dict(zip(columns, r))


for topic, sql in json.load(sys.stdin).items():
    for row in current(sys.argv[1], sys.argv[2], topic, sql):
        records.dump({"topic": topic, "value": records.row(row)})
