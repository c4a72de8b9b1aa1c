"""The page about versions of Kubernetes lists what `bursar doctor` reports as lost."""

import re

from bursar.app.doctor.supported import NEWEST, OLDEST
from bursar.app.doctor.versions import LOSSES
from support.named_tests import TESTS

PAGE = TESTS.parent / "docs" / "reference" / "kubernetes-versions.md"
ROW = re.compile(r"^\| ([^|]+) \| 1\.(\d+) \| ([^|]+) \|$", re.MULTILINE)


def test_the_table_of_features_is_that_of_the_doctor():
    text = PAGE.read_text()
    rows = [(feature, int(since), without) for feature, since, without in ROW.findall(text)]

    assert rows == [
        (each.feature, each.since, each.without.replace("spec.resources", "`spec.resources`"))
        for each in LOSSES
    ]
    assert f"Kubernetes 1.{OLDEST} to 1.{NEWEST}." in text
