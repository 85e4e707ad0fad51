"""The names that the tests of settings choose from, and any settings made of them."""

from hypothesis import strategies as st

from gpudash.config.settings import Choices, Settings

CHOICES = Choices(
    themes=("dark", "light", "high-contrast"),
    columns=("pid", "user", "gpu_memory", "utilization"),
    orders=("pid", "user", "gpu_memory", "utilization", "tree"),
    panels=("host", "sparklines"),
    actions=("kill", "help", "move(1)"),
    keys=("f1", "f9", "escape", "enter", "tab"),
)

KEYS = ("q", "ctrl+x", "f9", "é", '"', "\\", "#")


def any_settings() -> st.SearchStrategy[Settings]:
    return st.builds(
        Settings,
        interval=st.floats(0.1, 3600),
        theme=st.sampled_from(CHOICES.themes),
        ascii=st.booleans(),
        sort=st.sampled_from(CHOICES.orders),
        reverse=st.booleans(),
        per_gpu=st.booleans(),
        columns=st.permutations(CHOICES.columns).map(tuple) | st.just(()),
        hidden_panels=st.sampled_from([(), ("host",), ("sparklines", "host")]),
        bell=st.booleans(),
        read_only=st.booleans(),
        keys=st.permutations(KEYS).flatmap(_bindings),
    )


def _bindings(keys: list[str]) -> st.SearchStrategy[dict[str, tuple[str, ...]]]:
    """Give some actions some of the keys, none of them twice."""
    shares = (tuple(keys[:2]), tuple(keys[2:3]), ())
    return st.lists(
        st.tuples(st.sampled_from(CHOICES.actions), st.sampled_from(shares)),
        unique_by=(lambda pair: pair[0], lambda pair: pair[1]),
    ).map(dict)
