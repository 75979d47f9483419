"""Copies new outcomes of messages from Kafka into a DuckDB file, then ends. Run it as often as you like.

    pip install 'confluent-kafka[avro]' duckdb
    python consume.py 127.0.0.1:7310 http://127.0.0.1:7300/schema-registry outcomes.duckdb
"""

import datetime
import pathlib
import sys

import duckdb
from confluent_kafka import Consumer, KafkaError
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

TOPIC = "hub.message-outcomes.v1"
brokers, registry, file = sys.argv[1:4]

database = duckdb.connect(file)
database.execute(pathlib.Path(__file__).with_name("table.sql").read_text())
deserialize = AvroDeserializer(SchemaRegistryClient({"url": registry}))
context = SerializationContext(TOPIC, MessageField.VALUE)
consumer = Consumer(
    {"bootstrap.servers": brokers, "group.id": "analytics-duckdb", "auto.offset.reset": "earliest"}
    | {"enable.auto.commit": False, "enable.partition.eof": True}
)
consumer.subscribe([TOPIC])
unread = set(consumer.list_topics(TOPIC, timeout=60).topics[TOPIC].partitions)
count = 0
database.begin()
while unread:
    message = consumer.poll(60)
    if message is None:
        sys.exit("Kafka does not answer.")
    if message.error() and message.error().code() == KafkaError._PARTITION_EOF:
        unread.discard(message.partition())
    elif message.error():
        sys.exit(str(message.error()))
    else:
        outcome = deserialize(message.value(), context)
        values = [v.replace(tzinfo=None) if isinstance(v, datetime.datetime) else v for v in outcome.values()]
        places = ", ".join("?" for _ in outcome)
        # The last record of a message counts.
        database.execute(f"INSERT OR REPLACE INTO outcomes ({', '.join(outcome)}) VALUES ({places})", values)
        count += 1
database.commit()
if count > 0:
    consumer.commit(asynchronous=False)
consumer.close()
print(f"{count} records")
