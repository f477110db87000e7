"""consume.py BOOTSTRAP REGISTRY TOPIC...: a line of JSON for each committed record."""

import sys

import records

for m, key, value, headers in records.read(sys.argv[1], sys.argv[2], sys.argv[3:]):
    records.dump({
        "topic": m.topic(), "partition": m.partition(), "offset": m.offset(), "timestamp": m.timestamp()[1],
        "key": records.row(key), "value": records.row(value), "headers": headers,
    })
