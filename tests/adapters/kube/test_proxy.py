"""The proxy of the environment. The expected results are those of Go's httpproxy package."""

import pytest

from bursar.adapters.client_auth.config_error import ConfigError
from bursar.adapters.kube.proxy import find_proxy
from certificates import Authority
from support.builders.kubeconfigs import a_config, in_cluster, loaded, write

PROXY = "http://proxy:3128"
FAR = "https://api.example.com:6443"


@pytest.mark.parametrize(
    ("server", "environment", "expected"),
    [
        ("https://far", {"HTTPS_PROXY": PROXY}, PROXY),
        ("https://far", {"https_proxy": PROXY, "HTTPS_PROXY": "http://other"}, PROXY),
        ("https://far", {"https_proxy": "", "HTTPS_PROXY": PROXY}, PROXY),
        ("https://far", {"HTTP_PROXY": PROXY, "ALL_PROXY": PROXY}, ""),
        ("http://far", {"HTTP_PROXY": PROXY, "HTTPS_PROXY": "http://other"}, PROXY),
        ("https://far", {"HTTPS_PROXY": "proxy:3128"}, PROXY),
        ("https://far", {"HTTPS_PROXY": "10.0.0.9"}, "http://10.0.0.9"),
        ("https://far", {"HTTPS_PROXY": "https://u:p@proxy"}, "https://u:p@proxy"),
        ("https://far", {}, ""),
    ],
)
def test_the_scheme_of_the_server_selects_the_variable(server, environment, expected):
    assert find_proxy(environment, server) == expected


@pytest.mark.parametrize(
    "server",
    [
        *("https://localhost:6443", "https://127.0.0.1", "https://127.9.9.9:1", "https://[::1]:1"),
        "https://[::ffff:127.0.0.1]",
    ],
)
def test_loopback_is_reached_directly(server):
    assert find_proxy({"HTTPS_PROXY": PROXY}, server) == ""


@pytest.mark.parametrize(
    ("exceptions", "server", "is_direct"),
    [
        ("*", FAR, True),
        ("other.org, API.Example.com ,", FAR, True),
        ("example.com", FAR, True),
        ("example.com", "https://example.com", True),
        ("example.com", "https://notexample.com", False),
        (".example.com", FAR, True),
        (".example.com", "https://example.com", False),
        ("*.example.com", FAR, True),
        ("*.example.com", "https://example.com", False),
        ("*ple.com", FAR, False),
        ("example.com:6443", FAR, True),
        ("example.com:443", FAR, False),
        ("example.com:443", "https://example.com", True),
        ("example.com:", FAR, True),
        ("10.1.2.3", "https://10.1.2.3:6443", True),
        ("10.1.2.3:443", "https://10.1.2.3:6443", False),
        ("10.0.0.0/8", "https://10.1.2.3", True),
        ("10.9.9.9/8", "https://10.1.2.3", True),
        ("10.0.0.0/8", "https://11.1.2.3", False),
        ("10.0.0.0/8", FAR, False),
        ("10.0.0.0/255.0.0.0", "https://10.1.2.3", False),
        ("10.0.0.0/99", "https://10.1.2.3", False),
        ("::/0", "https://10.1.2.3", False),
        ("2.3", "https://10.1.2.3", False),
        ("fd00::1", "https://[fd00::1]:6443", True),
        ("[fd00::1]:6443", "https://[fd00::1]:6443", True),
        ("[fd00::1]", "https://[fd00::1]:6443", False),
        ("fd00::/8", "https://[fd00::1]:6443", True),
        ("::ffff:10.1.2.3", "https://10.1.2.3", True),
        ("bücher.example", "https://xn--bcher-kva.example", True),
        (":443", "https://far", False),
    ],
)
def test_exceptions_are_names_addresses_and_prefixes(exceptions, server, is_direct):
    found = find_proxy({"HTTPS_PROXY": PROXY, "NO_PROXY": exceptions}, server)

    assert found == ("" if is_direct else PROXY)


def test_lower_case_no_proxy_wins_and_prefixes_are_also_read_from_upper_case():
    """As in Go; client-go adds a search for CIDR prefixes of its own."""
    both = {"HTTPS_PROXY": PROXY, "no_proxy": "10.0.0.0/8,a", "NO_PROXY": "11.0.0.0/8,b"}
    hosts = ("10.1.1.1", "11.1.1.1", "a", "b")

    assert [host for host in hosts if not find_proxy(both, f"https://{host}")] == [
        *("10.1.1.1", "11.1.1.1", "a")
    ]


@pytest.mark.parametrize(
    ("server", "environment", "problem"),
    [
        (
            "https://far",
            {"HTTPS_PROXY": "socks5://u:hunter2@h"},
            "HTTPS_PROXY: only http:// and https:// proxies are supported",
        ),
        ("https://far", {"https_proxy": "http://hunter2 x"}, "https_proxy: not an address"),
        (
            "http://far",
            {"HTTP_PROXY": "http://hunter2", "REQUEST_METHOD": "GET"},
            "HTTP_PROXY: not trusted in a CGI process, where a client sets it",
        ),
    ],
)
def test_an_invalid_proxy_is_an_error_without_its_url(server, environment, problem):
    with pytest.raises(ConfigError) as caught:
        find_proxy(environment, server)

    assert str(caught.value) == problem


def test_a_proxy_that_is_not_used_is_not_validated():
    assert find_proxy({"HTTPS_PROXY": "socks5://h", "NO_PROXY": "far"}, "https://far") == ""


def test_the_proxy_of_the_kubeconfig_wins_over_the_environment(tmp_path):
    environment = {"HTTPS_PROXY": PROXY}
    stated = {"server": FAR, "proxy-url": "http://stated"}
    silent = write(tmp_path / "silent", a_config(cluster={"server": FAR}))
    speaking = write(tmp_path / "speaking", a_config(cluster=stated))

    assert loaded([silent], environment=environment).proxy_url == PROXY
    assert loaded([speaking], environment=environment).proxy_url == "http://stated"
    assert loaded([silent], environment={}).proxy_url == ""


def test_a_pod_uses_the_proxy_of_its_environment(tmp_path):
    (tmp_path / "token").write_text("t")
    Authority(tmp_path)
    environment = {
        "KUBERNETES_SERVICE_HOST": "10.96.0.1",
        "KUBERNETES_SERVICE_PORT": "443",
        "HTTPS_PROXY": PROXY,
    }
    cluster_network = {"NO_PROXY": "10.96.0.0/12"}

    assert in_cluster(str(tmp_path), environment).proxy_url == PROXY
    assert in_cluster(str(tmp_path), environment | cluster_network).proxy_url == ""
