import asyncio
import base64
import json
import re
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from bursar.adapters.client_auth.config_error import ConfigError
from bursar.adapters.kube.access import ClusterAccess
from bursar.app.cluster.ports import ClusterError
from support.builders.kubeconfigs import V1, HandClock, PluginScript, a_config, loaded, write

SECRET = "qzxvkwjbfhmg"  # noqa: S105 - nobody's
ENCODED = base64.b64encode(SECRET.encode()).decode()
TRACES = re.compile(
    "|".join(
        re.escape(text[start : start + 4])
        for text in (SECRET, ENCODED)
        for start in range(len(text) - 3)
    )
)
"""Every run of four characters of the secret. No other text here contains one."""

PLANTED = st.sampled_from(
    [
        SECRET,
        f"{SECRET}\n{SECRET}",
        f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----\n",
        ENCODED,
        [SECRET],
        {SECRET: SECRET},
        [{"name": SECRET, "value": SECRET}],
        {"a": [SECRET]},
        None,
        7,
        True,
    ]
)

USER_FIELDS = [
    *("token", "password", "username", "client-key-data", "client-certificate-data"),
    *("client-key", "client-certificate", "tokenFile", "as", "as-uid", "as-groups"),
    *("as-user-extra", "auth-provider", "exec"),
]
CLUSTER_FIELDS = [
    *("certificate-authority-data", "certificate-authority", "proxy-url", "tls-server-name"),
    *("insecure-skip-tls-verify", "disable-compression", "extensions"),
]
EXEC_FIELDS = ["args", "env", "apiVersion", "interactiveMode", "provideClusterInfo"]

USERS = st.dictionaries(st.sampled_from(USER_FIELDS), PLANTED, max_size=4)
CLUSTERS = st.dictionaries(st.sampled_from(CLUSTER_FIELDS), PLANTED, max_size=2)
EXECS = st.none() | st.dictionaries(st.sampled_from(EXEC_FIELDS), PLANTED, max_size=3)


def everything_shown(path, folder):
    """Everything that a configuration shows to a user, valid or not."""
    try:
        access = loaded([path], clock=HandClock(), environment={})
    except ConfigError as error:
        return f"{error} {error!r}".replace(str(folder), "")
    assert isinstance(access, ClusterAccess)
    shown = [str(access), repr(access), repr(access.credentials), repr(access.tls)]
    try:
        asyncio.run(access.credentials.headers())
    except ClusterError as error:
        shown += [str(error), repr(error)]
    return " ".join(shown).replace(str(folder), "")


@given(user=USERS, cluster=CLUSTERS, plugin=EXECS)
@settings(max_examples=300, deadline=None)
def test_no_secret_is_ever_shown(user, cluster, plugin):
    if plugin is not None:
        user["exec"] = {"command": "/none", "apiVersion": V1, "interactiveMode": "Never"} | plugin
    cluster.pop("tls-server-name", None)
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder, "config"), a_config(cluster, user))

        assert not TRACES.search(everything_shown(path, folder))


GARBAGE = st.sampled_from(
    [
        ":",
        "- ",
        "!",
        "*",
        "&",
        "{",
        "}",
        "[",
        "]",
        '"',
        "'",
        "\n",
        "\t",
        "|",
        ">",
        "%",
        "\\",
        "#",
        "?",
    ]
)


SOUND = [
    f"""
users:
- name: u
  user:
    token: {SECRET}
    password: {SECRET}
    client-key-data: {ENCODED}
    exec:
      env:
      - {{name: a, value: {SECRET}}}
""",
    json.dumps(a_config(user={"token": SECRET, "password": SECRET, "as-uid": SECRET})),
]


@given(data=st.data())
@settings(max_examples=400, deadline=None)
def test_no_secret_is_shown_of_a_broken_file(data):
    text = data.draw(st.sampled_from(SOUND))
    for _ in range(data.draw(st.integers(1, 4))):
        hidden = [match.start() for match in re.finditer(SECRET, text)]
        at = data.draw(st.integers(0, len(text)) | st.sampled_from(hidden or [0]))
        text = text[:at] + data.draw(GARBAGE) + text[at + data.draw(st.integers(0, 2)) :]
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder, "config"), text)

        assert not TRACES.search(everything_shown(path, folder))


@given(
    status=st.dictionaries(
        st.sampled_from(
            ["token", "clientKeyData", "clientCertificateData", "expirationTimestamp", SECRET]
        ),
        PLANTED,
    ),
    top=st.dictionaries(st.sampled_from(["kind", "apiVersion", "status", SECRET]), PLANTED),
    cut=st.integers(0, 400),
)
@settings(max_examples=60, deadline=None)
def test_no_secret_of_a_plugin_is_shown(status, top, cut):
    answer = {"apiVersion": V1, "kind": "ExecCredential", "status": status} | top
    with tempfile.TemporaryDirectory() as folder:
        script = PluginScript(Path(folder, "plugin"))
        script.prints(json.dumps(answer)[: cut or None])
        path = write(Path(folder, "config"), a_config(user=script.user()))

        assert not TRACES.search(everything_shown(path, folder))
