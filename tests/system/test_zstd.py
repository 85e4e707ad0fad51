from hypothesis import given
from hypothesis import strategies as st

from gpudash.system.zstd import pack, unpack


@given(st.binary(), st.just(b"") | st.binary(min_size=8))
def test_what_is_packed_is_unpacked_beside_the_same(data: bytes, like: bytes) -> None:
    assert unpack(pack(data, like), like) == data


def test_what_is_alike_takes_little() -> None:
    lines = [b" ".join(b"%d" % (number * number) for number in range(n)) for n in (9000, 9010)]
    assert len(pack(lines[1], lines[0])) < len(pack(lines[1])) // 20
