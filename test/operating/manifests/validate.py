"""
Validates manifests against the schemas of Kubernetes, of custom resources (KEDA, Prometheus operator and others)
and of the Compose specification. Reads a file with one JSON object:

  {"sets": {name: {"documents": [...], "compose": {...} or absent}}, "kubernetes": version, "definitions": [files], "schema": file}

and prints a JSON object with the problems of each set.
"""
import functools
import json
import sys

import jsonschema
import kubernetes_validate
import yaml
from kubernetes_validate import utils

# Without the cache the library reads some megabytes of definitions for each document.
utils.schema_contents = functools.lru_cache(maxsize=None)(utils.schema_contents)


def strict(schema):
    """Rejects unknown fields. Kubernetes would silently drop them."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items()}
    closed = isinstance(made.get("properties"), dict) and made.get("type") == "object"
    if closed and "additionalProperties" not in made and not made.get("x-kubernetes-preserve-unknown-fields"):
        made["additionalProperties"] = False
    return made


def definitions(files):
    found = {}
    for file in files:
        with open(file) as stream:
            for definition in yaml.load_all(stream, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
                if not definition:
                    continue
                spec = definition["spec"]
                for version in spec["versions"]:
                    schema = strict(version["schema"]["openAPIV3Schema"])
                    # Every resource has metadata, also if its definition does not describe it.
                    schema["properties"]["metadata"] = {"type": "object", "required": ["name"]}
                    found[f"{spec['group']}/{version['name']}", spec["names"]["kind"]] = schema
    return found


def describe(where, error):
    return f"{where}: {'/'.join(str(part) for part in error.absolute_path)}: {error.message}"


def problems(given, others, version, compose_schema):
    for document in given["documents"]:
        name = f"{document['kind']} {document['metadata']['name']}"
        schema = others.get((document["apiVersion"], document["kind"]))
        if schema is not None:
            yield from (describe(name, error) for error in jsonschema.Draft202012Validator(schema).iter_errors(document))
            continue
        try:
            kubernetes_validate.validate(document, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            yield describe(name, error)
        except kubernetes_validate.SchemaNotFoundError:
            yield f"{name}: Kubernetes {version} has no such kind"
    if "compose" in given:
        yield from (describe("compose", error) for error in compose_schema.iter_errors(given["compose"]))


def main():
    with open(sys.argv[1]) as stream:
        given = json.load(stream)
    with open(given["schema"]) as stream:
        compose_schema = jsonschema.Draft202012Validator(json.load(stream))
    others = definitions(given["definitions"])
    found = {
        name: list(problems(one, others, given["kubernetes"], compose_schema)) for name, one in given["sets"].items()
    }
    print(json.dumps(found))


main()
