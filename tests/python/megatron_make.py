"""Builds models of megatron-core on several ranks, on the CPU, and saves each rank's folder and a torch_dist checkpoint.

Reshards to one rank with megatron-core and prints the result, using the same tensor names as the
rank folders (`model`).

    megatron_make.py FOLDER CASE...

The rank folders are in FOLDER/CASE, and the distributed checkpoint in FOLDER/CASE-dist.
"""

import argparse
import json
import multiprocessing
import pathlib
import sys
import warnings
import zlib

warnings.filterwarnings("ignore")

import torch
import torch.distributed
import torch.nn.functional

# Megatron waits for a GPU, which is missing here.
torch.cuda.synchronize = lambda *_: None
torch.cuda.current_device = lambda: "cpu"
torch.Tensor.cuda = lambda tensor, *_: tensor

from megatron.core import dist_checkpointing, parallel_state
from megatron.core.dist_checkpointing.strategies import filesystem_async
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.transformer.transformer_config import TransformerConfig

import facts
import ranks

# The numbers of tensor, pipeline and expert ranks in each case.
CASES = {"gated": (2, 2, 1), "tied": (2, 2, 1), "experts": (1, 1, 2)}
WORDS = 32


def build(case, sizes):
    tensor, stages, experts = sizes
    torch.distributed.init_process_group("gloo")
    parallel_state.initialize_model_parallel(
        tensor_model_parallel_size=tensor, pipeline_model_parallel_size=stages, expert_model_parallel_size=experts
    )
    tied = case == "tied"
    config = TransformerConfig(
        num_layers=4, hidden_size=16, num_attention_heads=4, num_query_groups=4 if tied else 2, ffn_hidden_size=24,
        use_cpu_initialization=True, gated_linear_unit=not tied, add_bias_linear=tied, pipeline_dtype=torch.float32,
        activation_func=torch.nn.functional.gelu if tied else torch.nn.functional.silu,
        normalization="LayerNorm" if tied else "RMSNorm", num_moe_experts=4 if case == "experts" else None,
        tensor_model_parallel_size=tensor, pipeline_model_parallel_size=stages, expert_model_parallel_size=experts,
    )
    spec = get_gpt_layer_local_spec(config.num_moe_experts, False, normalization=config.normalization)
    model = GPTModel(
        config, spec, WORDS, 8, pre_process=parallel_state.is_pipeline_first_stage(),
        post_process=parallel_state.is_pipeline_last_stage(), share_embeddings_and_output_weights=tied,
        position_embedding_type="learned_absolute" if tied else "rope",
    )
    return config, model


def fill(model):
    """Fills parameters with numbers that differ wherever Megatron does not require equal numbers."""
    stage, tensor = parallel_state.get_pipeline_model_parallel_rank(), parallel_state.get_tensor_model_parallel_rank()
    for name, parameter in model.named_parameters():
        of = [name, stage]
        if name == "output_layer.weight" and model.share_embeddings_and_output_weights:
            of = ["embedding.word_embeddings.weight", 0]
        if getattr(parameter, "tensor_model_parallel", False):
            of.append(tensor)
        if ".experts." in name:
            of.append(parallel_state.get_expert_model_parallel_rank())
        made = torch.Generator().manual_seed(zlib.crc32(repr(of).encode()))
        with torch.no_grad():
            parameter.copy_(torch.randn(parameter.shape, generator=made))


def save(rank, folder, case):
    tensor, stages, experts = CASES[case]
    config, model = build(case, CASES[case])
    fill(model)
    at = [f"mp_rank_{parallel_state.get_tensor_model_parallel_rank():02}"]
    if stages > 1:
        at.append(f"{parallel_state.get_pipeline_model_parallel_rank():03}")
    if experts > 1:
        at.append(f"{parallel_state.get_expert_model_parallel_rank():03}")
    args = argparse.Namespace(
        tensor_model_parallel_size=tensor, pipeline_model_parallel_size=stages, expert_model_parallel_size=experts,
        num_layers=4, hidden_size=16, num_attention_heads=4, num_query_groups=config.num_query_groups,
        num_experts=config.num_moe_experts, swiglu=config.gated_linear_unit, padded_vocab_size=WORDS,
        untie_embeddings_and_output_weights=not model.share_embeddings_and_output_weights,
    )
    whole = pathlib.Path(folder, f"{case}-dist")
    whole.mkdir(parents=True, exist_ok=True)
    mine = pathlib.Path(folder, case, "iter_0000005", "_".join(at))
    mine.mkdir(parents=True, exist_ok=True)
    state = {"args": args, "checkpoint_version": 3.0, "iteration": 5, "model": model.state_dict_for_save_checkpoint()}
    torch.save(state, mine / "model_optim_rng.pt")
    pathlib.Path(folder, case, "latest_checkpointed_iteration.txt").write_text("5")
    torch.distributed.barrier()
    # Megatron serves this queue from a new interpreter, which would import everything again. The
    # imports take seconds on each rank.
    filesystem_async._results_queue = multiprocessing.get_context("fork").Manager().Queue()
    dist_checkpointing.save(model.sharded_state_dict(), str(whole))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def reshard(_rank, folder, case):
    _, model = build(case, (1, 1, 1))
    loaded = dist_checkpointing.load(model.sharded_state_dict(), f"{folder}/{case}-dist")
    model.load_state_dict(loaded)
    tensors = {name: value for name, value in model.state_dict().items() if isinstance(value, torch.Tensor)}
    found = {name: facts.fact(value) for name, value in tensors.items() if not name.endswith("_extra_state")}
    pathlib.Path(folder, f"{case}.json").write_text(json.dumps(found))
    torch.distributed.destroy_process_group()


def main():
    folder, *cases = sys.argv[1:]
    made = {}
    for case in cases:
        tensor, stages, experts = CASES[case]
        ranks.run(save, tensor * stages * experts, folder, case)
        ranks.run(reshard, 1, folder, case)
        made[case] = json.loads(pathlib.Path(folder, f"{case}.json").read_text())
    print(json.dumps(made))


if __name__ == "__main__":
    main()
