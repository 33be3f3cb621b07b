"""The tiny model's tokenizer: byte-level BPE with Qwen2's pre-tokenisation, its special tokens, and one
token for each boilerplate phrase of the default prompts, so that tiny prompts stay short.

Any text round-trips: bytes are the base alphabet. The result is an asset that travels with its weights; a
change here makes a new version and never touches an old one.
"""

from __future__ import annotations

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

QWEN_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""Qwen2's pattern: digits stand alone, so a number's tokens are its digits."""

SPECIAL = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
PHRASES = (
    "<think>",
    "</think>",
    "<answer>",
    "</answer>",
    "</think><answer>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    '{"bbox_2d": [',
    '], "label": "',
    '"}, {"bbox_2d": [',
    '"}]\n```',
    '"}',
    "]}",
    ", ",
    "```json\n[",
    "]\n```",
    "```",
    "<YES>",
    "<NO>",
    "Give the bounding box of the region that this phrase describes: ",
    ". First think in <think> </think> tags, then answer in <answer> </answer> tags as JSON.",
    "First think in <think> </think> tags, then answer in <answer> </answer> tags.",
    "Please carefully observe the image and detect the following targets: ",
    ". Output each detected targets' bbox coordinates in JSON format.",
    " The format of the bbox coordinates is: ```json\n"
    '[{"bbox_2d": [x1, y1, x2, y2], "label": "target name"}, '
    '{"bbox_2d": [x1, y1, x2, y2], "label": "target name"}]\n```.',
    " If there are no such targets in the image, simply respond with None. ",
)
VOCABULARY = 640
MORE_PHRASES = (
    "Write the thinking process inside <think> </think> tags and the final answer inside <answer> </answer> "
    "tags.",
    "First reason in your mind about the solution, then give the user the answer. Enclose the reasoning in "
    "<think> </think> tags and the answer in <answer> </answer> tags, like this: <think> reasoning goes here "
    "</think><answer> answer goes here </answer>",
    "Output each detected targets' bbox coordinates in JSON format.",
    " If there are no such targets in the image, simply respond with None.",
)
"""Of version 2: the prompts of the prompt question."""
MORE_WORDS = (
    "the\non\nat\none\nlike\nwithout\nwith\ncorners\nfour\nfire\ngrass\nsky\nlemon\nplum\ncarrot",
    " on at one like a without with corners four three fire grass sky lemon plum carrot shape",
)
"""Of version 2: the words of `data/phrases.py`."""
MORE_VOCABULARY = 704
READ_PHRASES = (
    "How many bars are there?",
    "How long is the ",
    " bar?",
    "Which bar is the longest?",
    "Which bar is the shortest?",
    "How many dots are in row ",
    ", column ",
    "Which colour has row ",
    "How many cells are ",
    "Check your last answer against the image. If it is right, write <YES>; if it is wrong, write <NO>. "
    "Write nothing else.",
    "The check found your answer wrong. Look at the image again and give another answer in the same format.",
)
"""Of version 3: questions about charts and tables, and the requests of conf/verify/loop.yaml."""
READ_VOCABULARY = 656

_WORDS = (
    "red\ngreen\nblue\nyellow\npurple\norange\ncircle\nsquare\ntriangle\nshape\nNone\nnot\nis",
    " red green blue yellow purple orange circle square triangle left right above below of the that is not",
    "top left\ntop right\nbottom left\nbottom right\ncentre\nnone found\none found\ntwo found\nthree found",
    " left right top bottom centre found",
)
"""Words that the worlds use at the start of a text and inside it; weighted so that each is one id."""

_CORPUS = (
    "the red circle, the green square, the blue triangle, yellow, purple, orange",
    " red circle; green square; blue triangle; yellow circle; purple square; orange triangle",
    "red green blue yellow purple orange circle square triangle",
    "circle left of the red square; square right of the blue circle; triangle above the green circle",
    "circle below the yellow triangle; shape that is not red; shape that is not purple; not orange",
    "top left, top right, bottom left, bottom right, centre, center, middle, upper, lower",
    "one found, two found, three found, four found, five found, none found, nothing found, None",
    "CropImage SelectFrames crop image frames frame number boxes name arguments",
    '{"name": "CropImage", "arguments": {"boxes": [[10, 20, 30, 40]], "image": 1}}',
    '{"name": "SelectFrames", "arguments": {"frames": [1, 2, 3, 4]}}',
    "Is the answer correct? Answer only YES or NO. The verifier disagrees, think again and answer.",
    "yes no true false correct wrong check verify answer final question label bbox_2d target name",
    "system user assistant tool You are a helpful assistant.",
    "How many objects are there in the image? Which option is right? A B C D \\boxed{12}",
    "Frame 1 at 0.0 s, frame 2 at 0.5 s, frame 3 at 1.0 s",
    "First think in the mind, then give the answer to the user. Output the bounding box in JSON format.",
    "Please provide the box of the region this sentence describes and detect the following objects",
    "Evaluate whether the response above is correct. Answer with <YES> or <NO> and nothing else.",
    "A small model looks at an image, thinks about where things are and writes what it has found.",
    "Compare the first image with the second image and say what has changed between the two of them.",
    "The judge prefers the answer that points to the right place and explains why it is there.",
    "There are many people who work on this, and they would like to know which of these is better.",
    "def function(value): return [value for value in range(10)] import json, class self, None True False",
)

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def build_tokenizer(version: int = 1) -> PreTrainedTokenizerFast:
    """A deterministic tokenizer: bytes, merges, specials and phrases, in all `VOCABULARY` ids of version 1,
    `MORE_VOCABULARY` of version 2, `READ_VOCABULARY` of version 3."""
    words, phrases, size = _WORDS, PHRASES, VOCABULARY
    if version == 2:
        words, phrases, size = (*_WORDS, *MORE_WORDS), (*PHRASES, *MORE_PHRASES), MORE_VOCABULARY
    if version == 3:
        phrases, size = (*PHRASES, *READ_PHRASES), READ_VOCABULARY
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN_SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size - len(SPECIAL) - len(phrases),
        min_frequency=1,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator((*words * 20, *_CORPUS), trainer)
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in SPECIAL])
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in phrases])
    if tokenizer.get_vocab_size() != size:
        raise ValueError(f"tokenizer has {tokenizer.get_vocab_size()} ids, not {size}: corpus too small")
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_max_length=4096,
    )
    wrapped.chat_template = CHAT_TEMPLATE
    return wrapped
