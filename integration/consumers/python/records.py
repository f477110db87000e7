"""Reads topics as confluent-kafka's users do: a group, read_committed, AvroDeserializer on keys and values."""

import datetime
import decimal
import json
import math
import uuid

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext


def read(bootstrap, registry, topics):
    """Yields (message, key, value, headers) of all that is committed, up to the end of every partition."""
    avro = AvroDeserializer(SchemaRegistryClient({"url": registry}), conf={"subject.name.strategy.type": "TOPIC"})
    consumer = Consumer({
        "bootstrap.servers": bootstrap,
        "group.id": "python-" + uuid.uuid4().hex,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
        "enable.partition.eof": True,
    })
    open_ = {(t, p) for t in topics for p in consumer.list_topics(t, 10).topics[t].partitions}
    consumer.subscribe(topics)
    try:
        while open_:
            m = consumer.poll(30)
            if m is None:
                raise TimeoutError("nothing for 30 s; open: %s" % open_)
            if m.error():
                if m.error().code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(m.error())
                open_.discard((m.topic(), m.partition()))
                continue
            decode = lambda b, field: avro(b, SerializationContext(m.topic(), field, m.headers()))
            headers = [
                [n, row(decode(v, MessageField.KEY)) if n == "__old_key" else v.decode()]
                for n, v in m.headers() or []
            ]
            yield m, decode(m.key(), MessageField.KEY), decode(m.value(), MessageField.VALUE), headers
    finally:
        consumer.close()


def row(fields):
    """A record as {field: [Python's type, text]}; None stays None."""
    return None if fields is None else {name: cell(v) for name, v in fields.items()}


def cell(v):
    if v is None:
        return None
    kind = type(v).__name__
    if isinstance(v, datetime.datetime) and v.tzinfo is not None:
        kind = "aware datetime"
    return [kind, text(v)]


def text(v):
    """A value as PostgreSQL prints it, a list as a list of such."""
    if v is None:
        return None
    if isinstance(v, bool):
        return "true" if v else "false"
    if isinstance(v, float):
        if math.isnan(v):
            return "NaN"
        if math.isinf(v):
            return "Infinity" if v > 0 else "-Infinity"
        return "%d" % v if v.is_integer() and abs(v) < 1e15 else repr(v)
    if isinstance(v, decimal.Decimal):
        return format(v, "f")
    if isinstance(v, datetime.datetime):
        at = v if v.tzinfo is None else v.astimezone(datetime.timezone.utc)
        return str(at.date()) + " " + clock(at) + ("" if v.tzinfo is None else "+00")
    if isinstance(v, datetime.time):
        return clock(v)
    if isinstance(v, (bytes, bytearray)):
        return "\\x" + v.hex()
    if isinstance(v, dict):
        return row(v)
    if isinstance(v, list):
        return [text(e) for e in v]
    return str(v)


def clock(t):
    s = t.strftime("%H:%M:%S.%f")
    return s.rstrip("0").rstrip(".")


def dump(value):
    print(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
