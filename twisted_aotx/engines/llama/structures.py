"""
Structures, functions and defaults of the C API of one version of llama.cpp.

`binding` checks the library against them before anything else is called.
"""

from __future__ import annotations

from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_bool,
    c_char_p,
    c_float,
    c_int,
    c_int8,
    c_int32,
    c_size_t,
    c_uint32,
    c_void_p,
)
from typing import Any, Final

#: The wheel that exports them, without what a build for a GPU adds to its version.
PACKAGE: Final = "xllamacpp"
VERSION: Final = "2026.10.11549"


class ModelParams(Structure):
    """
    `llama_model_params`.
    """

    _fields_ = (
        ("devices", c_void_p),
        ("tensor_buft_overrides", c_void_p),
        ("n_gpu_layers", c_int32),
        ("split_mode", c_int),
        ("load_mode", c_int),
        ("lazy_mode", c_int),
        ("main_gpu", c_int32),
        ("tensor_split", c_void_p),
        ("progress_callback", c_void_p),
        ("progress_callback_user_data", c_void_p),
        ("kv_overrides", c_void_p),
        ("vocab_only", c_bool),
        ("check_tensors", c_bool),
        ("use_extra_bufts", c_bool),
        ("no_host", c_bool),
        ("no_alloc", c_bool),
        ("load_mtp", c_bool),
    )


class ContextParams(Structure):
    """
    `llama_context_params`.
    """

    _fields_ = (
        ("n_ctx", c_uint32),
        ("n_batch", c_uint32),
        ("n_ubatch", c_uint32),
        ("n_seq_max", c_uint32),
        ("n_rs_seq", c_uint32),
        ("n_outputs_max", c_uint32),
        ("n_outputs_max_per_seq", c_uint32),
        ("n_threads", c_int32),
        ("n_threads_batch", c_int32),
        ("ctx_type", c_int),
        ("rope_scaling_type", c_int),
        ("pooling_type", c_int),
        ("attention_type", c_int),
        ("flash_attn_type", c_int),
        ("rope_freq_base", c_float),
        ("rope_freq_scale", c_float),
        ("yarn_ext_factor", c_float),
        ("yarn_attn_factor", c_float),
        ("yarn_beta_fast", c_float),
        ("yarn_beta_slow", c_float),
        ("yarn_orig_ctx", c_uint32),
        ("defrag_thold", c_float),
        ("cb_eval", c_void_p),
        ("cb_eval_user_data", c_void_p),
        ("type_k", c_int),
        ("type_v", c_int),
        ("moe_cache_size", c_size_t),
        ("abort_callback", c_void_p),
        ("abort_callback_data", c_void_p),
        ("embeddings", c_bool),
        ("offload_kqv", c_bool),
        ("no_perf", c_bool),
        ("op_offload", c_bool),
        ("swa_full", c_bool),
        ("kv_unified", c_bool),
        ("samplers", c_void_p),
        ("n_samplers", c_size_t),
        ("ctx_other", c_void_p),
    )


class Batch(Structure):
    """
    `llama_batch`: rows of one decode call.
    """

    _fields_ = (
        ("n_tokens", c_int32),
        ("token", POINTER(c_int32)),
        ("embd", c_void_p),
        ("pos", POINTER(c_int32)),
        ("n_seq_id", POINTER(c_int32)),
        ("seq_id", POINTER(POINTER(c_int32))),
        ("logits", POINTER(c_int8)),
    )


class SamplerChainParams(Structure):
    """
    `llama_sampler_chain_params`.
    """

    _fields_ = (("no_perf", c_bool),)


ABORT_CALLBACK: Final = CFUNCTYPE(c_bool, c_void_p)
LOG_CALLBACK: Final = CFUNCTYPE(None, c_int, c_char_p, c_void_p)

#: What the library's functions give back and take, without their `llama_`.
FUNCTIONS: Final[dict[str, tuple[Any, tuple[Any, ...]]]] = {
    "backend_init": (None, ()),
    "log_set": (None, (LOG_CALLBACK, c_void_p)),
    "model_default_params": (ModelParams, ()),
    "context_default_params": (ContextParams, ()),
    "sampler_chain_default_params": (SamplerChainParams, ()),
    # A model and its vocabulary.
    "model_load_from_file": (c_void_p, (c_char_p, ModelParams)),
    "model_free": (None, (c_void_p,)),
    "model_get_vocab": (c_void_p, (c_void_p,)),
    "model_has_encoder": (c_bool, (c_void_p,)),
    "model_is_diffusion": (c_bool, (c_void_p,)),
    "model_is_recurrent": (c_bool, (c_void_p,)),
    "model_is_hybrid": (c_bool, (c_void_p,)),
    "vocab_type": (c_int, (c_void_p,)),
    "vocab_n_tokens": (c_int32, (c_void_p,)),
    "vocab_is_eog": (c_bool, (c_void_p, c_int32)),
    "vocab_get_add_bos": (c_bool, (c_void_p,)),
    "vocab_get_attr": (c_int, (c_void_p, c_int32)),
    "vocab_bos": (c_int32, (c_void_p,)),
    "tokenize": (
        c_int32,
        (c_void_p, c_char_p, c_int32, POINTER(c_int32), c_int32, c_bool, c_bool),
    ),
    "token_to_piece": (
        c_int32,
        (c_void_p, c_int32, c_char_p, c_int32, c_int32, c_bool),
    ),
    # A context and its memory.
    "init_from_model": (c_void_p, (c_void_p, ContextParams)),
    "free": (None, (c_void_p,)),
    "n_ctx_seq": (c_uint32, (c_void_p,)),
    "n_seq_max": (c_uint32, (c_void_p,)),
    "n_batch": (c_uint32, (c_void_p,)),
    "n_ubatch": (c_uint32, (c_void_p,)),
    "n_threads": (c_int32, (c_void_p,)),
    "get_memory": (c_void_p, (c_void_p,)),
    "memory_seq_rm": (c_bool, (c_void_p, c_int32, c_int32, c_int32)),
    "memory_seq_pos_max": (c_int32, (c_void_p, c_int32)),
    "set_abort_callback": (None, (c_void_p, ABORT_CALLBACK, c_void_p)),
    "batch_init": (Batch, (c_int32, c_int32, c_int32)),
    "batch_free": (None, (Batch,)),
    "decode": (c_int32, (c_void_p, Batch)),
    # Samplers; a chain owns what is added to it.
    "sampler_chain_init": (c_void_p, (SamplerChainParams,)),
    "sampler_chain_add": (None, (c_void_p, c_void_p)),
    "sampler_free": (None, (c_void_p,)),
    "sampler_init_greedy": (c_void_p, ()),
    "sampler_init_temp": (c_void_p, (c_float,)),
    "sampler_init_top_p": (c_void_p, (c_float, c_size_t)),
    "sampler_init_dist": (c_void_p, (c_uint32,)),
    "sampler_sample": (c_int32, (c_void_p, c_void_p, c_int32)),
}

#: Defaults of this version that are not zero, null or false; together with all that
#: are, they tell whether a field has moved.
MODEL_DEFAULTS: Final = {
    "n_gpu_layers": -1,
    "split_mode": 1,
    "load_mode": -1,
    "lazy_mode": 1,
    "use_extra_bufts": True,
}
CONTEXT_DEFAULTS: Final = {
    "n_ctx": 512,
    "n_batch": 2048,
    "n_ubatch": 512,
    "n_seq_max": 1,
    "n_outputs_max_per_seq": 1,
    "n_threads": 4,
    "n_threads_batch": 4,
    "rope_scaling_type": -1,
    "pooling_type": -1,
    "attention_type": -1,
    "flash_attn_type": -1,
    "yarn_ext_factor": -1.0,
    "yarn_attn_factor": -1.0,
    "yarn_beta_fast": -1.0,
    "yarn_beta_slow": -1.0,
    "defrag_thold": -1.0,
    "type_k": 1,
    "type_v": 1,
    "offload_kqv": True,
    "no_perf": True,
    "op_offload": True,
    "swa_full": True,
}
