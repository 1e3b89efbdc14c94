"""Compares a serialized FileDescriptorSet with TensorFlow's own descriptors. Every message, field,
oneof and enum value in the set must exist in TensorFlow's descriptors and be equal. Prints the number
of compared items."""

import importlib
import json
import sys

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor_pb2 import FieldDescriptorProto

Label = FieldDescriptorProto.Label
Type = FieldDescriptorProto.Type
compared = {"messages": 0, "fields": 0, "values": 0}


def theirs(file):
    """Returns TensorFlow's own descriptors of a file's messages and enums, as compiled into its wheel."""
    if not file.name.startswith("google/"):
        importlib.import_module(file.name.removesuffix(".proto").replace("/", ".") + "_pb2")
    pool = descriptor_pool.Default()
    found = descriptor_pb2.FileDescriptorProto()
    for message in file.message_type:
        pool.FindMessageTypeByName(f"{file.package}.{message.name}").CopyToProto(found.message_type.add())
    for enum in file.enum_type:
        pool.FindEnumTypeByName(f"{file.package}.{enum.name}").CopyToProto(found.enum_type.add())
    return found


def by_name(items):
    return {item.name: item for item in items}


def messages(path, ours, theirs):
    other = by_name(theirs)
    for message in ours:
        here = f"{path}.{message.name}"
        assert message.name in other, f"TensorFlow has no message {here}"
        compared["messages"] += 1
        fields(here, message, other[message.name])
        messages(here, message.nested_type, other[message.name].nested_type)
        enums(here, message.enum_type, other[message.name].enum_type)
        assert message.options.map_entry == other[message.name].options.map_entry, here


def facts(field):
    return {
        "number": field.number,
        "label": Label.Name(field.label),
        "type": Type.Name(field.type),
        "type name": field.type_name,
        # The name of a oneof is not encoded.
        "is one of several": field.HasField("oneof_index"),
    }


def fields(path, ours, theirs):
    other = by_name(theirs.field)
    for field in ours.field:
        here = f"{path}.{field.name}"
        assert field.name in other, f"TensorFlow has no field {here}"
        a, b = facts(field), facts(other[field.name])
        assert a == b, f"{here}: ours is {a}, TensorFlow's is {b}"
        compared["fields"] += 1


def enums(path, ours, theirs):
    other = by_name(theirs)
    for enum in ours:
        here = f"{path}.{enum.name}"
        assert enum.name in other, f"TensorFlow has no enum {here}"
        values = by_name(other[enum.name].value)
        for value in enum.value:
            assert value.number == values[value.name].number, f"{here}.{value.name}"
            compared["values"] += 1


with open(sys.argv[1], "rb") as file:
    descriptors = descriptor_pb2.FileDescriptorSet.FromString(file.read())
for file in descriptors.file:
    other = theirs(file)
    messages(file.package, file.message_type, other.message_type)
    enums(file.package, file.enum_type, other.enum_type)
print(json.dumps(compared))
