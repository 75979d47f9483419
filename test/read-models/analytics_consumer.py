"""A stock consumer: reads the given topics through the schemas that the hub serves.

    analytics_consumer.py <brokers> <schema registry> <topic> …

Prints one line of JSON: for each topic and record type the number of records, and the fields with
their Python types. It knows nothing about the hub: the schema id at the start of a record names the
schema.
"""

import json
import sys
import uuid

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

WITHIN_S = 60.0

brokers, registry, *topics = sys.argv[1:]
client = SchemaRegistryClient({"url": registry})
deserialize = AvroDeserializer(client)
consumer = Consumer(
    {
        "bootstrap.servers": brokers,
        "group.id": f"analytics-{uuid.uuid4()}",
        "enable.auto.commit": False,
        # A change of topics waits for the end of a fetch that finds nothing. The default is 500.
        "fetch.wait.max.ms": 50,
    }
)

found = {}
for topic in topics:
    types = found[topic] = {}
    partitions = consumer.list_topics(topic, timeout=WITHIN_S).topics[topic].partitions
    missing = {}
    for partition in partitions:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=WITHIN_S)
        if high > low:
            missing[partition] = (low, high)
    consumer.assign([TopicPartition(topic, partition, low) for partition, (low, _) in missing.items()])
    while missing:
        message = consumer.poll(WITHIN_S)
        if message is None:
            sys.exit(f"{topic}: nothing more came")
        if message.error():
            sys.exit(f"{topic}: {message.error()}")
        value = deserialize(message.value(), SerializationContext(topic, MessageField.VALUE))
        name = dict(message.headers())["type"].decode()
        seen = types.setdefault(name, {"records": 0, "fields": {}})
        seen["records"] += 1
        for field, content in value.items():
            kinds = seen["fields"].setdefault(field, [])
            if type(content).__name__ not in kinds:
                kinds.append(type(content).__name__)
        if message.offset() + 1 >= missing.get(message.partition(), (0, 1 << 62))[1]:
            missing.pop(message.partition(), None)
consumer.close()

# Subjects, as a tool that looks around would ask for them.
subjects = {subject: client.get_latest_version(subject).schema_id for subject in client.get_subjects()}
print(json.dumps({"topics": found, "subjects": subjects}))
