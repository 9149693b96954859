"""Private files: no other program finds them, and data lie at the offsets that they return."""

import torch

from headroom.base.private_file import mapped, write


def test_data_lie_in_the_file_in_their_order_and_aligned(tmp_path):
    contents = [torch.arange(size, dtype=torch.int32).to(torch.uint8) for size in (5, 4096, 0, 130)]
    slots = write(tmp_path, contents)
    for data, slot in zip(contents, slots, strict=True):
        assert slot.offset % 64 == 0 and slot.nbytes == data.numel() and slot.contains(data)
    assert not slots[0].contains(contents[0] + 1)
    assert not slots[-1].contains(torch.zeros(1000).byte())
    beyond = slots[-1]._replace(offset=1 << 20, nbytes=8)  # a file that is too short has no zeros
    assert not beyond.contains(torch.zeros(8).byte())


def test_a_private_file_has_no_name_and_writes_to_its_mapping_do_not_reach_it(tmp_path):
    data = torch.zeros(4096, dtype=torch.uint8)
    (slot,) = write(tmp_path, [data])
    assert list(tmp_path.iterdir()) == []
    torch.frombuffer(mapped(slot.file), dtype=torch.uint8).fill_(1)
    assert slot.contains(data)
