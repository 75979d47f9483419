"""Runs the SQL examples for analysts.

    analytics_sql.py duckdb <database file> <file for the rows> <file with queries>
    analytics_sql.py clickhouse <file with the rows> <file with tables> <file with queries>

Prints one line of JSON. DuckDB: the rows of the table, and those of each query; the rows are also written
as JSON lines for ClickHouse. ClickHouse: the statements that were only parsed, and the rows of each query.
"""

import json
import sys


def statements(path):
    with open(path, encoding="utf-8") as file:
        text = "\n".join(line for line in file.read().split("\n") if not line.startswith("--"))
    return [statement.strip() for statement in text.split(";") if statement.strip() != ""]


def run_duckdb(database, rows, queries):
    import duckdb

    connection = duckdb.connect(database, read_only=True)
    connection.execute(f"COPY (SELECT * FROM outcomes) TO '{rows}' (FORMAT json)")
    table = connection.execute(
        "SELECT message_id, final_status, reason_code, price_hundredths, epoch_ms(accepted_at), operator_name FROM outcomes"
    ).fetchall()
    answers = [connection.execute(query).fetchall() for query in statements(queries)]
    return {"table": table, "answers": answers}


def run_clickhouse(rows, tables, queries):
    import chdb
    from chdb import session

    clickhouse = session.Session()
    parsed = []
    for statement in statements(tables):
        if "ENGINE = Kafka" in statement:
            # The library does not contain this engine, and even its parser must know it.
            clickhouse.query("EXPLAIN AST " + statement.replace("ENGINE = Kafka", "ENGINE = Memory"))
            columns = statement.split("ENGINE")[0]
            clickhouse.query(f"{columns} ENGINE = Memory")
            parsed.append(statement.split("\n")[0])
        elif "MATERIALIZED VIEW" in statement:
            # Only the engine Kafka has offsets.
            clickhouse.query(statement.replace("_offset AS", "toUInt64(0) AS"))
            parsed.append(statement.split("\n")[0])
        else:
            clickhouse.query(statement)
    clickhouse.query("SET session_timezone = 'UTC'")
    # First an older record of each message, which FINAL must leave out.
    for columns, offset in (("* REPLACE ('expired' AS final_status)", 1), ("*", 2)):
        clickhouse.query(
            f"INSERT INTO outcomes SELECT {columns}, {offset} AS record_offset FROM file('{rows}', JSONEachRow)"
        )
    answers = [json.loads(str(clickhouse.query(query, "JSONCompact")))["data"] for query in statements(queries)]
    return {"version": chdb.engine_version, "parsed": parsed, "answers": answers}


program, *arguments = sys.argv[1:]
result = {"duckdb": run_duckdb, "clickhouse": run_clickhouse}[program](*arguments)
print(json.dumps(result, default=str))
