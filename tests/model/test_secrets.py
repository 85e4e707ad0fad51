import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudash.model.secrets import (
    has_marks,
    is_secret_name,
    is_secret_value,
    mask_arguments,
    mask_text,
)

SECRET = (
    "HF_TOKEN WANDB_API_KEY AWS_SECRET_ACCESS_KEY --api-key --api_key apiKey accessToken APIKey "
    "PGPASSWORD MYSQL_PWD DB_PASS password --passphrase client_secret Authorization SSHPASS "
    "GITHUB_PAT private.key ACTIONS_ID_TOKEN_REQUEST_TOKEN VAULT_SECRET_ID authtoken "
    "AZURE_OPENAI_KEY --openai-key WANDB_KEY --wandb-key --api-keys --passwords openaiKey S3_KEY "
    "WANDB_KEY_2 NGC_API_KEYS"
)
PLAIN = (
    "PATH PWD OLDPWD --tokenizer --max-tokens TOKENIZERS_PARALLELISM --eos-token --pad_token_id "
    "SSH_AUTH_SOCK KEYBOARD --num-keys key --password-file API_KEY_ENV --two-pass passes "
    "secretary PATIENCE --key-dim bypass XDG_SESSION_ID GPG_KEY "
    "--sort-key --public-key --primary-key CACHE_KEY --image-key keys --keys --ssh-key-path "
    "--foreign-keys --input-keys KEYS monkey"
)

PIECES = (
    "api Api access auth private key KEY to ken Token sec ret pass word wd phrase code pwd PWD "
    "cred ential bearer authoriz ation cookie pat PAT id file hf_ sk- gh p_ glpat- xoxb- AKIA ASIA "
    "AIza eyJ pypi- nvapi- npm_ r8_ dop_v1_ gsk_ sk_live_ pplx- ? & sig= Signature= ] "
    ":// @ : = ' \" - _ . / a A 0 abcdefghijklmnop"
)
"""What names and values of secrets are made of, and what stands around them."""

LENGTH = 100_000
CPU_SECONDS = 20.0
"""Far above what a linear pass over LENGTH needs, far below what a quadratic one does."""


@pytest.mark.parametrize("name", SECRET.split())
def test_names_of_secrets_are_known(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", PLAIN.split())
def test_names_of_others_are_left_alone(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    ("arguments", "masked"),
    [
        (("x", "--api-key=a b", "-v"), ("x", "--api-key=***", "-v")),
        (("x", "--api_key", "s3", "-v"), ("x", "--api_key", "***", "-v")),
        (("x", "--openai-key", "s3", "-v"), ("x", "--openai-key", "***", "-v")),
        (("env", "AZURE_OPENAI_KEY=s3"), ("env", "AZURE_OPENAI_KEY=***")),
        (("x", "--password", "-s3", "y"), ("x", "--password", "***", "y")),
        (("sh", "-c", "x --password -s3 y"), ("sh", "-c", "x --password *** y")),
        (("x", "--token", "-password", "s3"), ("x", "--token", "-password", "***")),
        (("x", "--token", "--verbose", "y"), ("x", "--token", "--verbose", "y")),
        (("env", "WANDB_API_KEY=s3", "x"), ("env", "WANDB_API_KEY=***", "x")),
        (("sh", "-c", "HF_TOKEN=s3 x s3"), ("sh", "-c", "HF_TOKEN=***")),
        (("curl", "-H", "Authorization: Bearer s3"), ("curl", "-H", "Authorization:***")),
        (("x", "postgres://u:p@s3@h/db"), ("x", "postgres://u:***@h/db")),
        (("x", "https://h/?token=s3&n=1"), ("x", "https://h/?token=***")),
        (("x", "https://h/a?n=1&X-Amz-Signature=s3&m=2"),
         ("x", "https://h/a?n=1&X-Amz-Signature=***&m=2")),
        (("x", "https://h/a?sv=1&sig=s3%3D"), ("x", "https://h/a?sv=1&sig=***")),
        (("python", "-c", "os.environ['OPENAI_API_KEY'] = 's3'; run()"),
         ("python", "-c", "os.environ['OPENAI_API_KEY'] = '***'; run()")),
        (("x", "gsk_abcdefghijklmnop", "sk_live_abcdefghijklmnop"), ("x", "***", "***")),
        (("x", "hf_abcdefghijklmnop"), ("x", "***")),
        (("x", "a,ghp_abcdefghijklmnop,b"), ("x", "a,***,b")),
        (("x", "-----BEGIN RSA PRIVATE KEY-----\\nMII"), ("x", "***")),
        (
            ("sh", "-c", "export HF_TOKEN='s 3' x --password s3 --lr 1"),
            ("sh", "-c", "export HF_TOKEN='***' x --password *** --lr 1"),
        ),
        (("x", '{"n": 1, "api_key": "s3", "m": 2}'), ("x", '{"n": 1, "api_key": "***", "m": 2}')),
        (("sh", "-c", r"x \"token\": \"s3\""), ("sh", "-c", r"x \"token\": \"***" + '"')),
        (("sh", "-c", "curl -H 'Authorization: Basic s3'"),
         ("sh", "-c", "curl -H 'Authorization: ***'")),
    ],
)  # fmt: skip
def test_secrets_in_arguments_are_masked(
    arguments: tuple[str, ...], masked: tuple[str, ...]
) -> None:
    assert mask_arguments(arguments) == masked
    assert "s3" not in "".join(mask_arguments(arguments))


@pytest.mark.parametrize(
    "arguments",
    [
        ("python", "train.py", "--tokenizer", "gpt2", "--max-tokens", "5"),
        ("python", "train.py", "--key-dim", "64", "--sort-key", "name", "--num-keys", "8"),
        ("python", "-m", "torch.distributed.run", "--nproc-per-node=8", "train.py"),
        ("vllm", "serve", "meta-llama/Llama-3-70B", "--port", "8000"),
        ("bash", "-c", "cd /home/u/secret/project && python run.py --seed 3"),
        ("x", "--eos-token", "</s>", "task-scheduler-service", "http://h:80/a@b"),
        ("x", "--token="),
        ("x", "--sig=TERM", "--signature=serving_default", "risk_live_abcdefghijklmnop"),
        (),
    ],
)
def test_plain_arguments_stay_as_they_are(arguments: tuple[str, ...]) -> None:
    assert mask_arguments(arguments) == arguments


@pytest.mark.parametrize(
    ("value", "is_secret"),
    [("redis://:pw@h", True), ("hf_abcdefghijklmnop", True), ("/usr/bin:/bin", False), ("", False)],
)
def test_values_are_known_by_their_form(value: str, is_secret: bool) -> None:
    assert is_secret_value(value) is is_secret


@given(st.lists(st.text(alphabet="aA0-_=:@/ \"'\\tokenpasswdéhf_", max_size=40)))
def test_masking_keeps_the_count_and_needs_no_second_pass(arguments: list[str]) -> None:
    masked = mask_arguments(arguments)
    assert len(masked) == len(arguments)
    assert mask_arguments(masked) == masked


@given(st.sampled_from(["--token=", "HF_TOKEN=", "password: "]), st.text(min_size=1))
def test_whatever_follows_a_secret_name_is_gone(name: str, secret: str) -> None:
    assert mask_arguments([name + secret]) in ((f"{name}***",), (f"{name.rstrip()}***",))


@given(st.lists(st.sampled_from(PIECES.split()), max_size=12).map("".join))
def test_text_without_marks_holds_no_secret(text: str) -> None:
    if not has_marks(text):
        assert not is_secret_name(text)
        marked = f"{text} @ ://"
        assert has_marks(marked)
        assert mask_arguments(["x", marked]) == ("x", marked)
        assert mask_text(marked) == marked


@pytest.mark.parametrize(
    "piece",
    ["-", "a", "A", "aA", "token=", "token:", "--token ", 'token="', "token='", "://a:", "a:",
     "gsk_", "?sig=", "?sig=a", "&Signature",
     "hf_", "eyJ", "sk-a ", "\\", "token\\\"'", "token     ", "@", " ", "é", "npm_a", '"token":',
     "--token -"],
)  # fmt: skip
def test_hostile_arguments_cost_no_more_than_their_length(piece: str) -> None:
    hostile = (piece * LENGTH)[:LENGTH]
    start = time.process_time()
    mask_arguments([hostile, f"://{hostile}", f"x {hostile}@"])
    mask_text(f"token={hostile}")
    is_secret_name(hostile)
    assert time.process_time() - start < CPU_SECONDS
