"""Runs SQL for the tests: a line of JSON in, {"engine", "script": [...], "query"}, a line of JSON out, {"rows": [...]} or {"error"}."""

import json
import logging
import sys


class Duck:
    def __init__(self):
        import duckdb

        self.db = duckdb.connect()

    def run(self, script, query):
        for sql in script:
            self.db.execute(sql)
        cursor = self.db.execute(query)
        names = [d[0] for d in cursor.description]
        return [dict(zip(names, row)) for row in cursor.fetchall()]


class ClickHouse:
    def __init__(self):
        from chdb import session

        self.db = session.Session()

    def run(self, script, query):
        for sql in script:
            self.db.query(sql)
        answer = str(self.db.query(query, "JSONEachRow"))
        return [json.loads(line) for line in answer.splitlines()]


class Translated(Duck):
    """Runs views of another dialect in DuckDB, as sqlglot translates them. Its MIN_BY passes over nulls; theirs do not."""

    def __init__(self, dialect):
        super().__init__()
        self.dialect = dialect

    def run(self, script, query):
        import sqlglot
        from sqlglot import exp

        def with_nulls(node):
            if isinstance(node, exp.ArgMin):
                return exp.func("arg_min_null", node.this, node.expression)
            return node

        def translate(sql):
            if "CREATE OR REPLACE VIEW" not in sql:
                return sql
            tree = sqlglot.parse_one(sql, read=self.dialect)
            tree.set("properties", None)
            return tree.transform(with_nulls).sql("duckdb", comments=False)

        return super().run([translate(sql) for sql in script], query)


class Grammar:
    """Only parses: the script's first entry is the dialect. What it cannot parse it reports or keeps as a bare command."""

    def run(self, script, query):
        import sqlglot
        from sqlglot import exp

        trees = [t for t in sqlglot.parse(query, read=script[0], error_level=sqlglot.ErrorLevel.RAISE) if t]
        return [{"kind": type(t).__name__, "selects": len(list(t.find_all(exp.Select)))} for t in trees]


logging.getLogger("sqlglot").setLevel(logging.ERROR)
engines = {"duckdb": Duck, "translated": Translated, "clickhouse": ClickHouse, "grammar": Grammar}
running = {}
for line in sys.stdin:
    ask = json.loads(line)
    try:
        name = ask["engine"]
        if name not in running:
            kind, _, dialect = name.partition(":")
            running[name] = engines[kind](dialect) if dialect else engines[kind]()
        answer = {"rows": running[name].run(ask["script"] or [], ask["query"])}
    except Exception as e:
        answer = {"error": f"{type(e).__name__}: {e}"}
    print(json.dumps(answer, default=str), flush=True)
