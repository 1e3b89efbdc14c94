"""Prints the facts that TensorFlow reads from each of the given checkpoints."""

import json
import sys

import tf_facts

print(json.dumps({prefix: tf_facts.facts(prefix) for prefix in sys.argv[1:]}))
