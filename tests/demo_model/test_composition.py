"""A Llama behind a vision tower says about text exactly what it said before."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from vlm.demo_model.composition import VISION_TOKENS, compose
from vlm.demo_model.language_model_source import (
    LanguageModelConfig,
    LanguageModelSource,
    _undo_rotary_permutation,
)
from vlm.demo_model.vision_tower import DEMO_VISION_CONFIG

FIGURES = LanguageModelConfig(
    num_layers=2,
    num_heads=2,
    num_key_value_heads=1,
    hidden_size=128,
    intermediate_size=96,
    vocab_size=50,
    max_position_embeddings=64,
    rope_theta=100000.0,
    rms_norm_eps=1e-5,
)
VISION_CONFIG = DEMO_VISION_CONFIG | {
    "depth": 1,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_heads": 1,
    "out_hidden_size": FIGURES.hidden_size,
    "fullatt_block_indexes": [0],
}


def tiny_llama(vocab_size: int = FIGURES.vocab_size) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=FIGURES.hidden_size,
        intermediate_size=FIGURES.intermediate_size,
        num_hidden_layers=FIGURES.num_layers,
        num_attention_heads=FIGURES.num_heads,
        num_key_value_heads=FIGURES.num_key_value_heads,
        rms_norm_eps=FIGURES.rms_norm_eps,
        rope_parameters={"rope_type": "default", "rope_theta": FIGURES.rope_theta},
        tie_word_embeddings=True,
    )
    return LlamaForCausalLM(config).eval()


def test_text_logits_are_the_language_models_own() -> None:
    llama = tiny_llama()
    composed = compose(LanguageModelSource(FIGURES, llama.model.state_dict()), VISION_CONFIG)
    token_ids = torch.randint(0, FIGURES.vocab_size, (2, 17))
    with torch.no_grad():
        expected = llama(input_ids=token_ids).logits
        logits = composed(input_ids=token_ids).logits
    assert logits.shape[-1] == FIGURES.vocab_size + len(VISION_TOKENS)
    torch.testing.assert_close(logits[..., : FIGURES.vocab_size], expected, rtol=0, atol=1e-5)


def test_rotary_halves_come_apart_as_llama_cpp_interleaved_them() -> None:
    """One head of four rows: 0 and 2 rotate together there, stored as 0, 2, 1, 3."""
    interleaved = torch.tensor([[0.0], [2.0], [1.0], [3.0]])
    assert _undo_rotary_permutation(interleaved, 1).flatten().tolist() == [0, 1, 2, 3]
