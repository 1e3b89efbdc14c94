"""Creates a small BERT checkpoint in the layout of google-research/bert.

`make PREFIX` writes a checkpoint of random values with the names and shapes of the original
modeling.py and run_pretraining.py, including the slots of the optimizer. It also saves the values
that TensorFlow reads from the checkpoint as PREFIX.npz. `convert PREFIX` prints the tensors of the
state dict that transformers' own conversion makes from it (transformers 4; version 5 removed it).

TensorFlow and PyTorch run in two processes. Each contains a copy of LLVM, and a process that loads
both crashes. The conversion therefore gets replacements for the two TensorFlow functions that it calls.
"""

import json
import os
import sys
import types

import numpy as np

# All lengths are different. With eleven layers, some layer numbers have two digits.
VOCABULARY, HIDDEN, INTERMEDIATE, POSITIONS, TYPES, LAYERS = 31, 12, 20, 17, 2, 11


def shapes():
    def dense(name, before, after):
        return {f"{name}/kernel": (before, after), f"{name}/bias": (after,)}

    def norm(name):
        return {f"{name}/LayerNorm/beta": (HIDDEN,), f"{name}/LayerNorm/gamma": (HIDDEN,)}

    found = {
        "bert/embeddings/word_embeddings": (VOCABULARY, HIDDEN),
        "bert/embeddings/token_type_embeddings": (TYPES, HIDDEN),
        "bert/embeddings/position_embeddings": (POSITIONS, HIDDEN),
        **norm("bert/embeddings"),
    }
    for number in range(LAYERS):
        layer = f"bert/encoder/layer_{number}"
        for part in ("query", "key", "value"):
            found |= dense(f"{layer}/attention/self/{part}", HIDDEN, HIDDEN)
        found |= dense(f"{layer}/attention/output/dense", HIDDEN, HIDDEN) | norm(f"{layer}/attention/output")
        found |= dense(f"{layer}/intermediate/dense", HIDDEN, INTERMEDIATE)
        found |= dense(f"{layer}/output/dense", INTERMEDIATE, HIDDEN) | norm(f"{layer}/output")
    found |= dense("bert/pooler/dense", HIDDEN, HIDDEN)
    found |= {"cls/predictions/output_bias": (VOCABULARY,)}
    found |= dense("cls/predictions/transform/dense", HIDDEN, HIDDEN) | norm("cls/predictions/transform")
    return found | {"cls/seq_relationship/output_weights": (2, HIDDEN), "cls/seq_relationship/output_bias": (2,)}


def make(prefix):
    import tensorflow as tf

    random = np.random.default_rng(1)
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        for name, shape in shapes().items():
            for slot in ("", "/adam_m", "/adam_v"):
                v1.get_variable(name + slot, initializer=random.normal(size=shape).astype(np.float32), use_resource=False)
        v1.get_variable("global_step", initializer=np.int64(7), trainable=False, use_resource=False)
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(session, prefix, write_meta_graph=False, write_state=False)
    names = [name for name, _ in tf.train.list_variables(prefix)]
    np.savez(f"{prefix}.npz", **{name: tf.train.load_variable(prefix, name) for name in names})


def convert(prefix):
    read = np.load(f"{prefix}.npz")
    train = types.SimpleNamespace(
        list_variables=lambda path: [(name, list(read[name].shape)) for name in read.files],
        load_variable=lambda path, name: read[name],
    )
    os.environ["USE_TF"] = "0"  # transformers looks for it
    from transformers import BertConfig, BertForPreTraining
    from transformers.models.bert.modeling_bert import load_tf_weights_in_bert

    import facts

    config = BertConfig(
        vocab_size=VOCABULARY, hidden_size=HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=3,
        intermediate_size=INTERMEDIATE, max_position_embeddings=POSITIONS, type_vocab_size=TYPES,
    )
    model = BertForPreTraining(config)
    sys.modules["tensorflow"] = types.SimpleNamespace(train=train)
    state = load_tf_weights_in_bert(model, config, prefix).state_dict()
    print(json.dumps(facts.facts(state)))


if __name__ == "__main__":
    command, path = sys.argv[1:]
    {"make": make, "convert": convert}[command](path)
