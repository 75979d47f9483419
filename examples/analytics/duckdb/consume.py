"""Copies new outcomes of messages from Kafka into a DuckDB file, then ends. Run it as often as you like.

    pip install 'confluent-kafka[avro]' duckdb
    python consume.py 127.0.0.1:7310 http://127.0.0.1:7300/schema-registry outcomes.duckdb
"""

import pathlib
import sys

import duckdb
from confluent_kafka import Consumer, KafkaError
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer

TOPIC = "hub.message-outcomes.v1"
brokers, registry, file = sys.argv[1:]
database = duckdb.connect(file)
database.execute(pathlib.Path(__file__).with_name("table.sql").read_text())
deserialize = AvroDeserializer(SchemaRegistryClient({"url": registry}))
config = {"bootstrap.servers": brokers, "group.id": "analytics-duckdb", "auto.offset.reset": "earliest"}
consumer = Consumer({**config, "enable.auto.commit": False, "enable.partition.eof": True})
consumer.subscribe([TOPIC])
unread = set(consumer.list_topics(TOPIC, timeout=60).topics[TOPIC].partitions)
database.begin()
count = 0
while unread:
    message = consumer.poll()
    if message.error() is None:
        outcome = deserialize(message.value())
        # The last record of a message counts.
        database.execute("INSERT OR REPLACE INTO outcomes BY NAME SELECT unnest($1)", [outcome])
        count += 1
    elif message.error().code() == KafkaError._PARTITION_EOF:
        unread.discard(message.partition())
    else:
        sys.exit(str(message.error()))
database.commit()
if count > 0:
    consumer.commit(asynchronous=False)
consumer.close()
print(f"{count} records")
