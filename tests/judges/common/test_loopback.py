import pytest

from judges.common.loopback import is_loopback, without_proxy_to_loopback


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:8000/v1", True),
        ("http://127.8.0.1", True),
        ("https://me:word@localhost:8000", True),
        ("http://[::1]:8000", True),
        ("http://0.0.0.0:8000/v1", True),
        ("http://10.0.0.1:8000", False),
        ("https://localhost.example/v1", False),
        ("127.0.0.1:8000", False),
        ("http://[::1", False),
    ],
)
def test_a_loopback_url_names_this_machine(url, expected):
    assert is_loopback(url) is expected


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ({}, "127.0.0.1,localhost,::1,0.0.0.0"),
        ({"NO_PROXY": "a, localhost", "no_proxy": "b"}, "b,a,localhost,127.0.0.1,::1,0.0.0.0"),
        ({"NO_PROXY": "*"}, "*"),
    ],
)
def test_the_users_hosts_without_a_proxy_stay(given, value):
    made = without_proxy_to_loopback({"HTTP_PROXY": "http://proxy", **given})
    assert made == {"HTTP_PROXY": "http://proxy", "NO_PROXY": value, "no_proxy": value}
