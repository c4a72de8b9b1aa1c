import json
import ssl

import pytest

from bursar.adapters.client_auth.config_error import ConfigError
from bursar.adapters.client_auth.credentials import bearer
from certificates import Authority
from support.builders.kubeconfigs import (
    SERVER,
    V1,
    V1BETA1,
    HandClock,
    a_config,
    in_cluster,
    loaded,
    write,
)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("pki"))


def complaint(*paths, context=""):
    with pytest.raises(ConfigError) as caught:
        loaded(paths, context=context, environment={})
    text = str(caught.value)

    assert text.isprintable()
    return text


def test_a_context_leads_to_server_namespace_and_name(tmp_path):
    path = write(tmp_path / "config", a_config(context={"namespace": "team-a"}))

    access = loaded([path])

    assert (access.server, access.namespace, access.context) == (SERVER, "team-a", "here")
    assert access.ssl_context is not None
    assert access.ssl_context.verify_mode == ssl.CERT_REQUIRED


def test_the_namespace_defaults_to_default(tmp_path):
    assert loaded([write(tmp_path / "config", a_config())]).namespace == "default"


def test_a_context_can_be_chosen(tmp_path):
    config = a_config()
    config["contexts"].append({"name": "odd / name: ü", "context": {"cluster": "c"}})
    path = write(tmp_path / "config", config)

    assert loaded([path], context="odd / name: ü").context == "odd / name: ü"


# ------------------------------------------------------------------ several files


def test_the_first_file_wins_for_each_name_as_a_whole(tmp_path):
    first = a_config(cluster={"tls-server-name": "one"}, user={"as": "joe"})
    second = a_config(cluster={"server": "https://other", "proxy-url": "http://proxy"})
    del first["current-context"]
    paths = [write(tmp_path / "1", first), write(tmp_path / "2", second)]

    access = loaded(paths)

    assert (access.server, access.tls_server_name, access.proxy_url) == (SERVER, "one", "")


def test_the_first_current_context_wins(tmp_path):
    second = a_config(**{"current-context": "elsewhere"})
    paths = [write(tmp_path / "1", a_config()), write(tmp_path / "2", second)]

    assert loaded(paths).context == "here"


def test_one_of_several_files_may_be_missing(tmp_path):
    path = write(tmp_path / "config", a_config())

    assert loaded([str(tmp_path / "none"), "", path]).server == SERVER


def test_a_single_missing_file_is_an_error(tmp_path):
    assert complaint(str(tmp_path / "none")) == f"{tmp_path}/none: no such file"


def test_all_files_missing_is_an_error(tmp_path):
    text = complaint(f"{tmp_path}/a", f"{tmp_path}/b")

    assert text == f"{tmp_path}/a, {tmp_path}/b: no such file"


def test_a_broken_file_among_several_is_an_error(tmp_path):
    paths = [write(tmp_path / "1", a_config()), write(tmp_path / "2", "a: [")]

    assert complaint(*paths).startswith(f"{paths[1]}:1:5: ")


def test_no_file_at_all_is_an_error():
    assert complaint("") == "kubeconfig: no file is named"


def test_parts_of_a_context_may_stand_in_different_files(tmp_path):
    whole = a_config()
    paths = [
        write(tmp_path / part, {part: whole[part]})
        for part in ("clusters", "users", "contexts", "current-context")
    ]

    assert loaded(paths).server == SERVER


def test_paths_are_relative_to_the_file_they_stand_in(tmp_path, authority):
    pair = authority.client("joe")
    (tmp_path / "a").mkdir()
    for source in (authority.certificate, pair.certificate, pair.key):
        (tmp_path / source.name).write_bytes(source.read_bytes())
    config = a_config(
        cluster={"certificate-authority": "../ca.crt"},
        user={"client-certificate": "../joe.crt", "client-key": "./x/../../joe.key"},
    )

    access = loaded([write(tmp_path / "a" / "config", config)])

    assert len(access.ssl_context.get_ca_certs()) == 1


# ------------------------------------------------------------------ addresses


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("https://host", "https://host"),
        ("https://host:6443/", "https://host:6443"),
        ("https://host/k8s/clusters/c-1/", "https://host/k8s/clusters/c-1"),
        ("https://host/p?x=1#y", "https://host/p"),
        ("https://[::1]:6443", "https://[::1]:6443"),
        ("http://127.0.0.1:8001", "http://127.0.0.1:8001"),
        ("localhost:8080", "http://localhost:8080"),
    ],
)
def test_an_address_loses_its_slash_and_query(tmp_path, written, read):
    access = loaded([write(tmp_path / "config", a_config(cluster={"server": written}))])

    assert access.server == read
    assert (access.ssl_context is None) == read.startswith("http:")


async def test_credentials_are_not_sent_without_tls(tmp_path):
    user = {"token": "hidden", "as": "joe"}
    config = a_config(cluster={"server": "http://127.0.0.1:1"}, user=user)

    access = loaded([write(tmp_path / "config", config)])

    assert dict(await access.credentials.headers()) == {"Impersonate-User": "joe"}


# ------------------------------------------------------------------ inside a pod


def service_account(folder, authority, **without):
    folder.mkdir()
    files = {
        "token": "abc\n",
        "ca.crt": authority.certificate.read_text(),
        "namespace": "team-a\n",
    }
    for name in files.keys() - without.keys():
        (folder / name).write_text(files[name])
    return str(folder)


IN_POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


async def test_a_pod_reaches_its_cluster_as_its_service_account(tmp_path, authority):
    access = in_cluster(service_account(tmp_path / "sa", authority), IN_POD)

    assert access.server == "https://10.0.0.1:443"
    assert (access.context, access.namespace) == ("in-cluster", "team-a")
    assert dict(await access.credentials.headers()) == {"Authorization": "Bearer abc"}
    assert len(access.ssl_context.get_ca_certs()) == 1


def test_an_ipv6_service_is_put_in_brackets(tmp_path, authority):
    environment = IN_POD | {"KUBERNETES_SERVICE_HOST": "fd00::1"}
    access = in_cluster(service_account(tmp_path / "sa", authority), environment)

    assert access.server == "https://[fd00::1]:443"


def test_the_downward_api_names_the_namespace_first(tmp_path, authority):
    folder = service_account(tmp_path / "sa", authority)

    assert in_cluster(folder, IN_POD | {"POD_NAMESPACE": "own"}).namespace == "own"


async def test_a_service_account_token_is_read_again(tmp_path, authority):
    clock = HandClock()
    folder = service_account(tmp_path / "sa", authority)
    access = in_cluster(folder, IN_POD, clock=clock)
    (tmp_path / "sa" / "token").write_text("renewed")

    before = await access.credentials.headers()
    clock.seconds = 60
    after = await access.credentials.headers()

    assert (before, after) == (bearer("abc"), bearer("renewed"))


@pytest.mark.parametrize("missing", ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"])
def test_outside_a_pod_there_is_no_service_account(tmp_path, missing):
    environment = {name: value for name, value in IN_POD.items() if name != missing}

    with pytest.raises(ConfigError, match=f"^{missing}: not set: this process does not run in a"):
        in_cluster(str(tmp_path), environment)


def test_a_pod_without_a_token_is_an_error(tmp_path, authority):
    folder = service_account(tmp_path / "sa", authority, token=None)

    with pytest.raises(ConfigError, match=r"/sa/token: no such file$"):
        in_cluster(folder, IN_POD)


def test_a_pod_without_an_authority_is_an_error(tmp_path, authority):
    folder = service_account(tmp_path / "sa", authority, **{"ca.crt": None})

    with pytest.raises(ConfigError, match=r"/ca.crt: no such file$"):
        in_cluster(folder, IN_POD)


# ------------------------------------------------------------------ what is wrong, and where


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("users:\n  - name: x\n  name: y\n", "config:3:3: "),
        ("clusters: {}\n", "config:1:11: clusters: a list is expected, found an object"),
        ("users: [{user: {token: 12}}]", "config:1:24: users[0].user.token: a string is expected"),
        ("users: [{user: {password: !hunter2 x}}]", "config:1:27: unknown tag"),
        ("users: [{user: {password: *hunter2}}]", "config:1:27: unknown anchor"),
        ("hello", "config:1:1: a kubeconfig is expected, found a string"),
        ("kind: Pod", "config:1:7: kind: Config is expected"),
        ("apiVersion: v2", "config:1:13: apiVersion: v1 is expected"),
        ("users: [{name: a}, {name: a}]", 'config:1:27: users[1].name: "a" is there twice'),
        ("", "config: current-context: required, but missing"),
        ("users: null\n", "config: current-context: required, but missing"),
    ],
)
def test_a_bad_file_is_named_with_line_and_column(tmp_path, text, line):
    write(tmp_path / "config", text)

    assert complaint(str(tmp_path / "config")).startswith(f"{tmp_path}/{line}")


def test_a_folder_is_not_a_kubeconfig(tmp_path):
    assert complaint(str(tmp_path)) == f"{tmp_path}: is a directory"


def test_a_missing_context_names_the_files(tmp_path):
    path = write(tmp_path / "config", a_config())

    assert complaint(path, context="x") == (
        f'context "x" does not exist in {path}; name one with --context: "here"'
    )


@pytest.mark.parametrize(
    ("context", "problem"),
    [
        ({"cluster": "x"}, 'contexts[0].context.cluster: cluster "x" does not exist in {}'),
        ({"cluster": ""}, "contexts[0].context.cluster: required, but missing"),
        ({"user": "x"}, 'contexts[0].context.user: user "x" does not exist in {}'),
        (
            {"namespace": "a/b"},
            "contexts[0].context.namespace: not a name that a namespace can have",
        ),
    ],
)
def test_a_bad_context_says_which_key(tmp_path, context, problem):
    path = write(tmp_path / "config", a_config(context=context))

    assert complaint(path) == f"{path}: {problem.format(path)}"


EXEC = {"command": "x", "apiVersion": V1, "interactiveMode": "Never"}


@pytest.mark.parametrize(
    ("cluster", "problem"),
    [
        ({"server": ""}, "server: required, but missing"),
        ({"server": "ftp://x"}, "server: an address that begins with https:// is expected"),
        ({"server": "https://:1"}, "server: not an address"),
        ({"server": "https://h:99999"}, "server: not an address"),
        ({"server": "host/path"}, "server: an address or host:port is expected"),
        ({"server": "https://u:hunter2@h"}, "server: holds a name or password; use the fields"),
        ({"proxy-url": "socks5://h"}, "proxy-url: only http:// and https:// proxies are supported"),
        (
            {"certificate-authority-data": "hunter2!"},
            "certificate-authority-data: not valid base64",
        ),
        ({"certificate-authority-data": "YWJj"}, "certificate-authority-data: no PEM certificate"),
        ({"certificate-authority": "/none"}, "certificate-authority: no such file"),
        (
            {"certificate-authority": "/none", "insecure-skip-tls-verify": True},
            "insecure-skip-tls-verify: contradicts certificate-authority",
        ),
    ],
)
def test_a_bad_cluster_says_which_key(tmp_path, cluster, problem):
    path = write(tmp_path / "config", a_config(cluster=cluster))

    assert complaint(path).startswith(f"{path}: clusters[0].cluster.{problem}")


@pytest.mark.parametrize(
    ("user", "problem"),
    [
        ({"client-certificate": "/none"}, "client-key: required beside client-certificate"),
        ({"client-certificate": "none", "client-key": "k"}, "client-certificate: no such"),
        ({"client-certificate-data": "@", "client-key": "k"}, "client-certificate-data: not valid"),
        ({"tokenFile": "/none"}, "tokenFile: no such file"),
        ({"token": "a\nb"}, "token: cannot be sent: it has control characters"),
        ({"token": "a", "username": "b"}, "username: either a token or a name with a password"),
        ({"as-groups": ["a"]}, "as: required beside as-uid, as-groups, as-user-extra"),
        ({"as": "a\nb"}, "as: cannot be sent: it has control characters"),
        ({"auth-provider": {"name": "gcp"}}, "auth-provider: removed from Kubernetes; use an exec"),
        ({"exec": {}}, "exec.command: required, but missing"),
        ({"exec": {"command": "x"}}, "exec.apiVersion: required, but missing"),
        (
            {"exec": EXEC | {"apiVersion": "v1"}},
            "exec.apiVersion: client.authentication.k8s.io/v1 or",
        ),
        ({"exec": EXEC | {"interactiveMode": ""}}, "exec.interactiveMode: required, but missing"),
        (
            {"exec": EXEC | {"interactiveMode": "x"}},
            "exec.interactiveMode: one of Never, IfAvailable",
        ),
        ({"exec": EXEC | {"env": [{"value": "x"}]}}, "exec.env[0].name: required, but missing"),
    ],
)
def test_a_bad_user_says_which_key(tmp_path, user, problem):
    path = write(tmp_path / "config", a_config(user=user))

    assert complaint(path).startswith(f"{path}: users[0].user.{problem}")


def test_the_mode_of_an_old_plugin_is_optional(tmp_path):
    user = {"exec": {"command": "x", "apiVersion": V1BETA1}}

    assert loaded([write(tmp_path / "config", a_config(user=user))])


def test_a_server_that_is_not_verified(tmp_path):
    config = a_config(cluster={"insecure-skip-tls-verify": True})

    context = loaded([write(tmp_path / "config", config)]).ssl_context

    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_NONE, False)


def test_json_and_yaml_are_the_same(tmp_path):
    text = json.dumps(a_config(), indent="\t")

    assert loaded([write(tmp_path / "config", text)]).server == SERVER


def test_an_access_shows_no_secret(tmp_path):
    config = a_config(
        cluster={"proxy-url": "http://u:hunter2@proxy"}, user={"token": "hunter2-token"}
    )
    access = loaded([write(tmp_path / "config", config)])

    assert "hunter2" not in repr(access) + str(access) + repr(access.credentials)
    assert access.proxy_url == "http://u:hunter2@proxy"
