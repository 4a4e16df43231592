"""Routing by prefix, without the machines."""
import json

from kvik.prefixes import PrefixTable, blocks_of, consistent_choice, prompt_text

LONG = "x" * 1000


def test_the_longest_beginning_wins():
    table = PrefixTable()
    table.record(blocks_of(LONG[:600]), "short")
    table.record(blocks_of(LONG + "a"), "long")
    assert table.longest(blocks_of(LONG + "b"), ["short", "long"]) == "long"
    assert table.longest(blocks_of(LONG[:600] + "other" * 100), ["short", "long"]) == "long"  # of two blocks, the last who computed them
    assert table.longest(blocks_of("y" * 600), ["short", "long"]) is None
    assert table.longest(blocks_of(LONG + "b"), ["short"]) is None
    table.forget("long")
    assert table.longest(blocks_of(LONG[:600]), ["short", "long"]) == "short"


def test_the_table_forgets_the_oldest():
    table = PrefixTable(capacity=10)
    for i in range(50):
        table.record(blocks_of(f"prompt {i}"), str(i))
    assert table.longest(blocks_of("prompt 49"), ["49"]) == "49" and table.longest(blocks_of("prompt 1"), ["1"]) is None
    assert len(table._owners) == 10


def test_consistent_choices_change_only_for_the_one_that_left():
    names = [f"replica {i}" for i in range(8)]
    before = {key: consistent_choice(key, names) for key in range(2000)}
    after = {key: consistent_choice(key, names[:-1]) for key in range(2000)}
    assert all(after[key] == name for key, name in before.items() if name != names[-1])
    counts = [list(before.values()).count(name) for name in names]
    assert min(counts) > 150


def test_a_conversation_continues_its_blocks():
    messages = [{"role": "system", "content": LONG}, {"role": "user", "content": "Hello"}]
    first = prompt_text(json.dumps({"model": "m", "messages": messages, "temperature": 1}).encode())
    messages += [{"role": "assistant", "content": "Hi"}, {"role": "user", "content": "More"}]
    second = prompt_text(json.dumps({"messages": messages, "stream": True, "model": "m"}).encode())
    assert second.startswith(first) and blocks_of(second)[:4] == blocks_of(first)[:4]
    assert prompt_text(b"\xff not json") == prompt_text(b"[1]") == ""
    assert prompt_text(b'{"model": "m", "prompt": [1, 2]}') == "m\n[1, 2]"
