"""Which part of an answer is the payload."""

import pytest

from groundrl.parsing.fences import find_payload


@pytest.mark.parametrize(
    ("body", "text", "fenced"),
    [
        ("[1]", "[1]", False),
        ("None", "None", False),
        ("```json\n[1]\n```", "[1]", True),
        ("  ```json\r\n[1]\r\n```  ", "[1]", True),
        ("```JSON [1]```", "[1]", True),
        ("```json\n[1]```", "[1]", True),
        ("```json[1]\n```", "[1]", True),
        ("```\n[1]\n```", "[1]", False),
        ("```python\n[1]\n```", "[1]", False),
        ("```json5\n[1]\n```", "[1]", False),
        ("here:\n```json\n[1]\n```", "[1]", False),
        ("```json\n[1]\n```\ndone", "[1]", False),
        ("```json\n[1]\n```\n```json\n[2]\n```", "[2]", False),  # several: the last
        ("```json\n[1]", "[1]", False),
        ("```json\n[1]\n```\n```json\n[2]", "[2]", False),
        ("```json\n\n```", "", True),
        ("``````", "", False),
        ("```", "", False),
        ("", "", False),
    ],
)
def test_payload(body, text, fenced) -> None:
    payload = find_payload(body)
    assert (payload.text, payload.fenced) == (text, fenced)


@pytest.mark.parametrize("label", ["```", "```json", "a ``` b", "```json [] ```"])
def test_a_fence_inside_a_label_is_no_fence(label) -> None:
    item = '[{"label": "' + label + '"}]'
    assert find_payload(item).text == item
    assert find_payload(f"```json\n{item}\n```").text == item
    assert find_payload(f"```json {item} ```").text == item
