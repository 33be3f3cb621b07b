"""Memory of a training step under full sharding, from sizes alone.

Full sharding (ZeRO-3, Rajbhandari et al. 2020, section 5.3; PyTorch FSDP2): every process keeps 1 / ranks of
weights, gradients and optimiser state, and gathers one repeated block at a time. States are exact under the
assumptions below; what a forward pass keeps is an estimate, counted in saved tensors of the Qwen2.5 block.

Counted as the learner keeps them (learner/master.py): gradients, AdamW's two moments and, under a precision
below float32, a master copy of what learns, all float32. Assumed: no offloading, no fragmentation, no
communication buffers besides the gathered blocks. On small models the estimate for learning was 0.85 to 1.13
of the measured peak (a test repeats that).
"""

from __future__ import annotations

from dataclasses import dataclass

from groundrl.models.chunked_logprobs import CHUNK_ELEMENTS

MIB = 2**20
GIB = 2**30
FLOAT32 = 4
MOMENTS = 8
"""Bytes of AdamW's two float32 moments per learning parameter."""
LOGIT_COPIES = 2
"""float32 tensors [chunk, vocabulary] alive at once while log-probs and entropy are taken
(models/chunked_logprobs.py): logits, and their exponentials."""
GATHERED = 2
"""Blocks gathered at once: the one at work and the next; what lies outside the blocks stays gathered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What the architecture decides: parameters in all, learning, outside the blocks (`root`) and in the
    largest block; the widths of the decoder and of the vision tower; whether the tower's blocks learn (else
    nothing of them is kept). Decoder layers with a recurrent state (models/plan_recurrent.py): how many of
    the layers, elements that one saves per token besides norms and MLP, elements of one row's state in one.
    """

    parameters: int
    trainable: int
    root: int
    largest: int
    layers: int
    hidden: int
    query: int
    key_value: int
    heads: int
    intermediate: int
    vocabulary: int
    vision_layers: int
    vision_hidden: int
    vision_intermediate: int
    vision_trains: bool
    recurrent_layers: int = 0
    recurrent_elements: int = 0
    recurrent_state: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the run decides.

    weight_bytes       of a weight in the run's precision
    rows, images       rows of a micro-batch and the different images among them
    prompts            prompts computed for them: one a group where rows share, else one a row
    prompt, completion tokens of a row, image tokens included
    image_tokens       of one image; merge: patches per image token
    drawn              completions that one process draws at once
    trains, checkpointing, reference (a frozen copy is kept), eager (attention scores are materialised)
    engine_parts       processes that one copy of the weights for sampling is spread over; 0: none is kept
    """

    ranks: int
    weight_bytes: int
    rows: int
    prompts: int
    images: int
    prompt: int
    completion: int
    image_tokens: int
    merge: int
    drawn: int
    trains: bool
    checkpointing: bool
    reference: bool
    eager: bool
    engine_parts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One line of the table: bytes per process, how they are counted, which setting lowers them."""

    name: str
    bytes: float
    formula: str
    lower: str = ""


def states(sizes: Sizes, load: Load, *, more_ranks: str = "raise debug.plan_ranks (more GPUs)") -> list[Item]:
    """What a process keeps all the time. more_ranks: how to have more processes."""
    n, w, t = load.ranks, load.weight_bytes, sizes.trainable
    items = [
        Item(
            name="weights",
            bytes=sizes.parameters * w / n,
            formula=f"parameters x {w} / {n}",
            lower=more_ranks,
        )
    ]
    if load.trains:
        fewer = f"{more_ranks}, or let fewer parameters learn (model.lora.rank=64)"
        if w < FLOAT32:
            items.append(
                Item(name="master weights", bytes=t * FLOAT32 / n, formula=f"learning x 4 / {n}", lower=fewer)
            )
        items += [
            Item(name="gradients", bytes=t * FLOAT32 / n, formula=f"learning x 4 / {n}", lower=fewer),
            Item(name="AdamW moments", bytes=t * MOMENTS / n, formula=f"learning x 8 / {n}", lower=fewer),
        ]
    if load.reference:
        items.append(
            Item(
                name="reference policy",
                bytes=sizes.parameters * w / n,
                formula=f"parameters x {w} / {n}",
                lower="use algorithm/kl=none, or model.lora.rank=64 (no second copy)",
            )
        )
    if load.engine_parts:
        items.append(
            Item(
                name="engine's copy",
                bytes=sizes.parameters * w / load.engine_parts,
                formula=f"parameters x {w} / {load.engine_parts}",
                lower="use rollout/engine=vllm with rollout.engine.tensor_parallel_size",
            )
        )
    if n > 1:
        items.append(
            Item(
                name="gathered blocks",
                bytes=(sizes.root + GATHERED * sizes.largest) * w,
                formula=f"({sizes.root:,} outside blocks + {GATHERED} x {sizes.largest:,}) x {w}",
            )
        )
    return items


def learning(sizes: Sizes, load: Load) -> list[Item]:
    """What a micro-batch adds while learning (estimates)."""
    if not load.trains:
        return []
    micro = "lower algorithm.optim.micro_batch"
    tokens = load.prompts * load.prompt + load.rows * load.completion
    per_token = decoder_elements(sizes)
    kept, formula = _kept(
        sizes.layers, sizes.hidden, sizes.intermediate, per_token, checkpointing=load.checkpointing
    )
    scores = load.rows * sizes.heads * (load.prompt + load.completion) ** 2 if load.eager else 0
    blocks = 1 if load.checkpointing else sizes.layers
    items = [
        Item(
            name="decoder activations",
            bytes=load.weight_bytes * (tokens * kept + blocks * scores),
            formula=f"{tokens:,} tokens x {formula} x {load.weight_bytes}",
            lower=micro if load.checkpointing else f"{micro}, or use model.gradient_checkpointing=true",
        )
    ]
    if sizes.vision_trains:
        patches = load.images * load.image_tokens * load.merge
        kept, formula = _kept(
            sizes.vision_layers,
            sizes.vision_hidden,
            sizes.vision_intermediate,
            vision_elements(sizes),
            checkpointing=load.checkpointing,
        )
        items.append(
            Item(
                name="vision activations",
                bytes=load.weight_bytes * patches * kept,
                formula=f"{patches:,} patches x {formula} x {load.weight_bytes}",
                lower="lower model.max_pixels, or use model.freeze_vision=true",
            )
        )
    chunk = min(load.rows * load.completion, max(1, CHUNK_ELEMENTS // sizes.vocabulary))
    items.append(
        Item(
            name="logits",
            bytes=LOGIT_COPIES * FLOAT32 * chunk * sizes.vocabulary,
            formula=f"{LOGIT_COPIES} x {chunk:,} tokens at a time x {sizes.vocabulary:,} x 4",
        )
    )
    return items


def drawing(sizes: Sizes, load: Load) -> list[Item]:
    """What drawing completions adds; never at the same time as learning."""
    tokens = load.drawn * (load.prompt + load.completion)
    fewer = "lower rollout.engine.max_batch"
    layers = sizes.layers - sizes.recurrent_layers
    items = [
        Item(
            name="key-value cache",
            bytes=load.weight_bytes * 2 * layers * sizes.key_value * tokens,
            formula=f"{tokens:,} tokens x 2 x {layers} x {sizes.key_value} x {load.weight_bytes}",
            lower=fewer,
        )
    ]
    if sizes.recurrent_layers:
        items.append(
            Item(
                name="recurrent states",
                bytes=FLOAT32 * load.drawn * sizes.recurrent_layers * sizes.recurrent_state,
                formula=f"{load.drawn:,} rows x {sizes.recurrent_layers} x {sizes.recurrent_state:,} x 4",
                lower=fewer,
            )
        )
    return items


def decoder_elements(sizes: Sizes) -> int:
    """Saved elements of one decoder block per token, attention scores not materialised.

    Block input and its middle, each once as it is and once normalised (4 hidden); queries and the attention's
    result, queries once more after rotation (3 query), keys and values likewise (4 key_value); gate, its
    activation, up and their product (4 intermediate). A recurrent layer saves more than attention; where
    there are some, every layer is counted as one.
    """
    mixer = max(3 * sizes.query + 4 * sizes.key_value, sizes.recurrent_elements)
    return 4 * sizes.hidden + mixer + 4 * sizes.intermediate


def vision_elements(sizes: Sizes) -> int:
    """The same for a vision block, whose queries, keys and values are as wide as the block."""
    return 11 * sizes.vision_hidden + 4 * sizes.vision_intermediate


def _kept(
    layers: int, hidden: int, intermediate: int, per_token: int, *, checkpointing: bool
) -> tuple[int, str]:
    """(elements kept per token, how they are counted): all blocks; or their inputs, and one block made anew
    with its gradients on the way back (residual stream twice; gate, up and product)."""
    if checkpointing:
        block = per_token + 2 * hidden + 3 * intermediate
        return layers * hidden + block, f"({layers} x {hidden} + {block})"
    return layers * per_token, f"({layers} x {per_token})"
