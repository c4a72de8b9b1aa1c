"""What a filesystem lacks to count by project."""

import pytest

from bursar.core.storage.quota_check import Lack, QuotaFacts, missing_parts


def lacking(**fields):
    facts = QuotaFacts(path="/var/lib/kubelet", mount="/data", source="/dev/sda1", **fields)
    return missing_parts(facts)


@pytest.mark.parametrize(
    ("fields", "lacks"),
    [
        ({"kind": "ext4", "has_accounting": True}, []),
        ({"kind": "xfs", "has_accounting": True, "may_read": True}, []),
        ({"kind": "xfs", "has_accounting": True, "may_read": False}, [Lack.RIGHTS]),
        ({"kind": "btrfs"}, [Lack.FILESYSTEM]),
        ({}, [Lack.FILESYSTEM]),
        ({"kind": "ext4", "has_feature": False}, [Lack.FEATURE, Lack.MOUNT_OPTION]),
        ({"kind": "ext4"}, [Lack.FEATURE, Lack.MOUNT_OPTION]),
        ({"kind": "ext4", "has_feature": True}, [Lack.MOUNT_OPTION]),
        (
            {"kind": "ext4", "has_feature": True, "options": frozenset({"prjquota"})},
            [Lack.KERNEL],
        ),
        (
            {"kind": "ext4", "has_feature": False, "options": frozenset({"prjquota"})},
            [Lack.FEATURE],
        ),
        ({"kind": "xfs"}, [Lack.MOUNT_OPTION]),
        ({"kind": "xfs", "options": frozenset({"pquota"})}, [Lack.KERNEL]),
    ],
)
def test_the_missing_parts_are_named_in_order(fields, lacks):
    assert [each.what for each in lacking(**fields)] == lacks


def test_commands_name_the_device_and_the_mount():
    feature, option = lacking(kind="ext4", has_feature=False)
    assert feature.commands[:2] == ("umount /data", "tune2fs -O project -Q prjquota /dev/sda1")
    assert option.commands == ("/dev/sda1 /data ext4 defaults,prjquota 0 0   # in /etc/fstab",)
    [root] = missing_parts(QuotaFacts(path="/", mount="/", kind="xfs"))
    assert root.commands == ("rootflags=prjquota   # on the kernel's command line",)
