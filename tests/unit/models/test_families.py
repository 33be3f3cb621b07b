"""Every family on a tiny random instance, against the model called as its authors mean it."""

from __future__ import annotations

import copy
import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.tiny import ask, picture, scorer, varied_contexts
from tests.unit.models.tiny_families import TILE, build

from groundrl.errors import ConfigError, UserError
from groundrl.geometry.frames import to_original
from groundrl.models.config import LoraConfig, ModelConfig
from groundrl.models.family import FAMILIES, family_of
from groundrl.models.forward import Row, completion_logits, decoder_inputs, pack
from groundrl.models.load import Policy, load_policy
from groundrl.models.lora import adapters_off
from groundrl.models.plan_names import check_adapters, check_names, find_units
from groundrl.rollout.engines.base import Request, Sampling
from groundrl.rollout.engines.hf_engine import HFEngine
from groundrl.types import CoordinateSpace, ImageFrame

CPU = torch.device("cpu")
SPACES = {
    "internvl": CoordinateSpace.REL1000,
    "qwen2_vl": CoordinateSpace.REL1000,
    "qwen2_5_vl": CoordinateSpace.PIXEL_RESIZED,
    "qwen3_vl": CoordinateSpace.REL1000,
    "qwen3_5": CoordinateSpace.REL1000,
}
LINEARS = {"qwen3_5": 3 * 6 + 7}
"""Linear layers that adapters go into, where they are not two layers of seven."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    folder: Path
    policy: Policy
    exact: Policy


@pytest.fixture(scope="module", params=sorted(FAMILIES))
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    """A loaded checkpoint of one family, and the same in float64. Not to be changed."""
    folder = tmp_path_factory.mktemp("family") / request.param
    build(request.param, folder)
    policy = load_policy(ModelConfig(path=str(folder)))
    policy.model.eval()
    exact = replace(policy, model=copy.deepcopy(policy.model).double())
    return Case(folder=folder, policy=policy, exact=exact)


def rows(policy: Policy, lengths=(5, 9, 1, 7, 3)) -> list[Row]:
    rng = np.random.default_rng(0)
    return [
        Row(prompt=c.ids, images=c.images, completion=rng.integers(0, 590, size=n).astype(np.int64))
        for c, n in zip(varied_contexts(policy.processor), lengths, strict=True)
    ]


def own_logits(model: Any, row: Row) -> torch.Tensor:
    """Logits [C, V] of the model's own forward on one unpadded row."""
    ids = torch.from_numpy(np.concatenate([row.prompt, row.completion]))[None]
    extra = {}
    if row.images and model.config.model_type == "internvl":
        tiles = np.concatenate([i.patches for i in row.images])
        extra = {"pixel_values": torch.from_numpy(tiles.reshape(-1, 3, TILE, TILE))}
    elif row.images:
        extra = {
            "pixel_values": torch.from_numpy(np.concatenate([i.patches for i in row.images])),
            "image_grid_thw": torch.tensor([i.grid_thw for i in row.images]),
            "mm_token_type_ids": (ids == model.config.image_token_id).int(),
        }
    with torch.no_grad():
        logits = model(input_ids=ids, attention_mask=torch.ones_like(ids), **extra).logits[0]
    return logits[len(row.prompt) - 1 : -1]


def logprobs(policy: Policy, given: list[Row]) -> torch.Tensor:
    with torch.no_grad():
        return scorer(policy.processor)(policy.model, given).logprobs


def test_every_family_has_its_space_and_there_is_no_default() -> None:
    assert {name: family.coordinate_space for name, family in FAMILIES.items()} == SPACES
    frame = ImageFrame(original=(640, 480), processed=(320, 240))
    # relative: 500 of 1000 is half an edge; pixels of the half-size image: doubled
    for name, wanted in {"qwen3_vl": (320, 240, 640, 480), "qwen2_5_vl": (1000, 1000, 2000, 2000)}.items():
        assert to_original((500, 500, 1000, 1000), FAMILIES[name].coordinate_space, frame) == wanted
    with pytest.raises(UserError, match="known: internvl, qwen2_5_vl, qwen2_vl, qwen3_5, qwen3_vl"):
        family_of("qwen3_vl_text", "weights/Qwen3-VL")


def test_an_image_becomes_what_the_familys_own_processor_makes(case: Case) -> None:
    """By hand: sides are rounded to whole image tokens (28 px, from Qwen3-VL on 32 px)."""
    processor = case.policy.processor
    image = picture((120, 70), 1)
    made = processor.prepare(image)
    own = processor.image_processor(images=[image], return_tensors="np")
    np.testing.assert_array_equal(made.patches, own["pixel_values"].reshape(made.patches.shape))
    if case.policy.family.tiled:
        # 50176 pixels hold 16 tiles of 56 x 56; of canvases up to 16, 5 x 3 comes nearest to 120 / 70
        assert made.patches.shape == (5 * 3 + 1, 3 * TILE * TILE)
        assert made.grid_thw == (16, 4, 4)
        assert processor.family.image_tokens(made.grid_thw) == 16 * 4
        return
    # 120 / 28 = 4.3 and 70 / 28 = 2.5, which rounds to the even 2; 120 / 32 = 3.75, 70 / 32 = 2.2
    side, grid = (16, (1, 4, 8)) if case.policy.family.patch_size == 16 else (14, (1, 4, 8))
    assert made.grid_thw == grid
    assert made.frame == ImageFrame(original=(120, 70), processed=(8 * side, 4 * side))
    assert processor.family.image_tokens(made.grid_thw) == 8
    assert made.patches.shape == (32, 3 * 2 * side * side)


def test_packed_rows_get_the_models_own_logits(case: Case) -> None:
    # the states of Qwen3.5 are float32 whatever the model is
    closest = 1e-5 if case.policy.family.recurrent else 1e-8
    for policy, tolerance in ((case.policy, 1e-4), (case.exact, closest)):
        given = rows(policy)
        packed = pack(given, policy.model, pad_id=policy.processor.pad_id, device=CPU)
        with torch.no_grad():
            logits = completion_logits(policy.model, packed)
        for b, row in enumerate(given):
            got = logits[b, : len(row.completion)]
            torch.testing.assert_close(got, own_logits(policy.model, row), rtol=0, atol=tolerance)


def test_deepstack_features_reach_the_decoder(case: Case) -> None:
    policy = case.exact
    packed = pack(rows(policy), policy.model, pad_id=policy.processor.pad_id, device=CPU)
    with torch.no_grad():
        inputs = decoder_inputs(policy.model, packed)
        whole = completion_logits(policy.model, packed)
        levels = inputs.pop("deepstack_visual_embeds", [])
        assert len(levels) == (2 if policy.family.model_type == "qwen3_vl" else 0)
        if levels:
            mask = inputs.pop("visual_pos_masks")
            assert torch.equal(mask, packed.input_ids == policy.processor.image_id)
            hidden = policy.model.model.language_model(
                **inputs, position_ids=packed.positions, attention_mask=None, use_cache=False
            ).last_hidden_state
            without = policy.model.lm_head(hidden[0, packed.columns[0, 0]])
            assert float((without - whole[0, 0]).abs().max()) > 1e-2
    text = [rows(policy)[4]]
    packed = pack(text, policy.model, pad_id=policy.processor.pad_id, device=CPU)
    assert list(decoder_inputs(policy.model, packed)) == ["inputs_embeds"]


def test_a_row_does_not_depend_on_its_neighbours(case: Case) -> None:
    given, others = rows(case.exact), rows(case.exact, (2, 30, 4, 0, 11))
    alone = logprobs(case.exact, [given[3]])
    among = logprobs(case.exact, [others[1], given[3], others[0]])
    other = logprobs(case.exact, [given[3], others[2]])
    torch.testing.assert_close(among[1, :7], alone[0], rtol=0, atol=1e-6)
    torch.testing.assert_close(other[0, :7], alone[0], rtol=0, atol=1e-6)


def test_b42_two_pictures_give_two_log_probs(case: Case) -> None:
    contexts = [ask(case.policy.processor, "red circle", [(112, 112)], seed) for seed in (1, 2)]
    assert contexts[0].ids.tolist() == contexts[1].ids.tolist()
    completion = case.policy.processor.encode("top left")
    first, second = logprobs(
        case.policy, [Row(prompt=c.ids, images=c.images, completion=completion) for c in contexts]
    )
    assert float((first - second).abs().max()) > 1e-3


def test_b39_b49_what_is_drawn_has_the_learners_log_probs(case: Case) -> None:
    """Prompts of unequal lengths, with none to two images; an image token opens one, and left padding repeats
    its column. Placeholders are made the likeliest words and are still not drawn."""
    policy = replace(case.policy, model=copy.deepcopy(case.policy.model))
    processor = policy.processor
    with torch.no_grad():
        head = policy.model.lm_head.weight
        head[list(processor.banned_ids)] = 50 * head.abs().max()
    contexts = varied_contexts(processor)
    shorter = ask(processor, "x", [(56, 84)])
    cut = int(np.flatnonzero(shorter.ids == processor.image_id)[0])
    requests = [Request(prompt_ids=c.ids, images=c.images, seeds=(n, n + 9)) for n, c in enumerate(contexts)]
    requests.append(Request(prompt_ids=shorter.ids[cut:], images=shorter.images, seeds=(77,)))
    assert len({len(r.prompt_ids) for r in requests}) >= 5
    assert len(requests[-1].prompt_ids) < max(len(r.prompt_ids) for r in requests)
    sampling = Sampling(temperature=0.8, max_new_tokens=12)
    drawn = HFEngine(policy.model, processor, max_batch=64).generate(requests, sampling)
    score = scorer(processor, 0.8)
    for request, completions in zip(requests, drawn, strict=True):
        for completion in completions:
            assert not np.isin(completion.ids, processor.banned_ids).any()
            row = Row(prompt=request.prompt_ids, images=request.images, completion=completion.ids)
            with torch.no_grad():
                got = score(policy.model, [row]).logprobs[0].numpy()
            np.testing.assert_allclose(completion.logprobs, got, atol=1e-4)


@pytest.mark.parametrize(("vision", "projector"), [(True, False), (False, True), (True, True)])
def test_freezing(case: Case, vision: bool, projector: bool) -> None:
    config = ModelConfig(path=str(case.folder), freeze_vision=vision, freeze_projector=projector)
    for name, parameter in load_policy(config).model.named_parameters():
        between = any(word in name for word in ("visual.merger.", "deepstack_merger", "projector"))
        tower = ("visual." in name or "vision_tower" in name) and not between
        assert parameter.requires_grad is not ((tower and vision) or (between and projector)), name


def test_adapters_and_names(case: Case) -> None:
    check_names(case.policy.model, case.policy.family)
    units = find_units(case.policy.model, case.policy.family)
    assert (units.decoder_blocks, units.vision_blocks) == (4 if case.policy.family.recurrent else 2, 2)
    config = ModelConfig(path=str(case.folder), lora=LoraConfig(rank=4, alpha=8, dropout=0.0))
    policy = load_policy(config)
    policy.model.eval()
    check_adapters(policy.model, policy.family)
    learning = [n for n, p in policy.model.named_parameters() if p.requires_grad]
    # each with A and B
    assert len(learning) == 2 * LINEARS.get(policy.family.model_type, 2 * 7)
    assert all(n.startswith("model.language_model.layers.") and ".lora_" in n for n in learning)
    given = rows(policy)
    base = logprobs(case.policy, given)
    torch.testing.assert_close(logprobs(policy, given), base, rtol=0, atol=1e-5)
    with torch.no_grad():
        for name, parameter in policy.model.named_parameters():
            if ".lora_B" in name:
                parameter.fill_(0.1)
    assert float((logprobs(policy, given) - base).abs().max()) > 1e-2
    with adapters_off(policy.model):
        torch.testing.assert_close(logprobs(policy, given), base, rtol=0, atol=1e-5)


def test_every_part_gets_a_gradient(case: Case) -> None:
    model = copy.deepcopy(case.policy.model)
    scorer(case.policy.processor)(model, rows(case.policy)).logprobs.sum().backward()
    for prefix in (case.policy.family.vision_prefix, *case.policy.family.projectors):
        found = [p.grad for n, p in model.named_parameters() if n.startswith(prefix) and p.grad is not None]
        assert found
        assert all(torch.isfinite(g).all() for g in found)
        assert sum(float(g.abs().sum()) for g in found) > 0


def test_b52_a_moved_folder_with_another_familys_name_gives_the_same_log_probs(
    case: Case, tmp_path: Path
) -> None:
    saved, moved = tmp_path / "saved", tmp_path / "Qwen2.5-VL-or-Qwen3-VL"
    case.policy.model.save_pretrained(saved)
    case.policy.processor.tokenizer.save_pretrained(saved)
    case.policy.processor.image_processor.save_pretrained(saved)
    shutil.move(saved, moved)
    again = load_policy(ModelConfig(path=str(moved)))
    again.model.eval()
    assert again.family is case.policy.family
    assert torch.equal(logprobs(again, rows(again)), logprobs(case.policy, rows(case.policy)))


def test_one_tile_where_the_pixels_hold_no_more(case: Case) -> None:
    if not case.policy.family.tiled:
        pytest.skip("no tiles")
    policy = load_policy(ModelConfig(path=str(case.folder), max_pixels=TILE * TILE, min_pixels=784))
    made = policy.processor.prepare(picture((120, 70), 1))
    assert made.grid_thw == (1, 4, 4)
    context = ask(policy.processor, "x", [(120, 70)])
    words = policy.processor.tokenizer.convert_ids_to_tokens(context.ids.tolist())
    start = words.index("<img>")
    assert words[start : start + 6] == ["<img>", *["<IMG_CONTEXT>"] * 4, "</img>"]


def test_patches_of_another_size_are_refused(case: Case, tmp_path: Path) -> None:
    if case.policy.family.tiled:
        pytest.skip("the tiles are cut by the model")
    folder = shutil.copytree(case.folder, tmp_path / "other")
    file = folder / "preprocessor_config.json"
    values = json.loads(file.read_text("utf-8"))
    file.write_text(json.dumps(values | {"patch_size": 7}), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"patch and merge size \(7, 2\)"):
        load_policy(ModelConfig(path=str(folder)))
