"""Project quotas on ext4 and XFS, in a kernel that has them."""

import platform
import shutil

import pytest

from support.kernels.virtual_machine import run_project_quotas

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        platform.machine() != "x86_64" or shutil.which("mke2fs") is None,
        reason="takes an x86_64 machine and mke2fs",
    ),
]

MIB = 2**20
KINDS = pytest.mark.parametrize("kind", ["ext4", "xfs"])


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return run_project_quotas(tmp_path_factory.mktemp("machine"))


@KINDS
def test_scan_and_quota_agree(results, kind):
    for when, mib in (("first", 3), ("grown", 6), ("closed", 6)):
        quota, scan = results[kind][when]["quota"], results[kind][when]["scan"]
        assert quota[2] == "quota"
        assert scan[2] == "scan"
        assert quota[0] == scan[0], when
        assert mib * MIB <= quota[0] < (mib + 1) * MIB


@KINDS
def test_a_deleted_file_that_is_open_is_seen_by_the_quota_and_not_by_the_scan(results, kind):
    before, during = results[kind]["grown"], results[kind]["deleted but open"]
    assert during["scan"][:1] == before["scan"][:1]
    assert during["quota"][0] == before["quota"][0] + MIB


@KINDS
def test_ids_of_others_are_respected_and_their_lines_stay(results, kind):
    found = results[kind]
    volume = f"/mnt/{kind}/pods/u1/volumes/kubernetes.io~empty-dir/cache"
    others = "1048577:/srv/archive\n# a comment\nnot a line\n"
    assert found["id"] == 1048578
    assert found["projects"] == f"{others}1048578:{volume}\n"
    assert found["projid"] == "bursar-1048578:1048578\n"
    assert (found["forgotten"], found["projects after"], found["projid after"]) == (1, others, "")


@KINDS
def test_only_a_volumes_own_id_counts_and_only_of_pods_with_a_user_namespace(results, kind):
    found = results[kind]
    assert found["unassigned"] is None
    assert found["inherited"] is None
    assert found["without user namespace"] is None
    assert found["read only"] == found["closed"]["quota"]


def test_the_check_says_what_is_missing(results):
    assert results["ext4"]["missing"] == results["xfs"]["missing"] == []
    assert results["plain"] == {"measured": None, "missing": ["Lack.FEATURE", "Lack.MOUNT_OPTION"]}
    assert results["xfs-plain"] == {"measured": None, "missing": ["Lack.MOUNT_OPTION"]}
