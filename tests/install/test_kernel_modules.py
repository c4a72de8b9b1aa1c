"""The kernel modules of a virtual machine: which are loaded, and in which order."""

import lzma

from real_node.machine import ordered_modules


def a_module(folder, name, *depends):
    """A file with the part of a kernel module that names other modules."""
    content = b"ELF\0license=GPL\0depends=" + ",".join(depends).encode() + b"\0name=x\0"
    path = folder / f"{name}.ko"
    path.write_bytes(content)
    return path


def test_a_module_comes_after_those_that_it_depends_on(tmp_path):
    a_module(tmp_path, "virtio_net", "net_failover", "virtio")
    a_module(tmp_path, "net_failover", "failover")
    a_module(tmp_path, "failover")
    a_module(tmp_path, "virtio")

    assert list(ordered_modules(tmp_path)) == ["failover", "net_failover", "virtio", "virtio_net"]


def test_a_file_is_named_with_dashes_where_dependencies_have_underscores(tmp_path):
    a_module(tmp_path, "veth", "net-part")
    a_module(tmp_path, "net_part")
    a_module(tmp_path, "nft-nat")

    assert list(ordered_modules(tmp_path)) == ["net_part", "veth", "nft_nat"]


def test_compressed_modules_are_unpacked(tmp_path):
    plain = a_module(tmp_path, "overlay")
    content = plain.read_bytes()
    plain.with_suffix(".ko.xz").write_bytes(lzma.compress(content))
    plain.unlink()

    assert ordered_modules(tmp_path) == {"overlay": content}


def test_modules_that_nothing_needs_and_parts_of_the_kernel_are_left_out(tmp_path):
    a_module(tmp_path, "sound")
    a_module(tmp_path, "veth", "part_of_the_kernel")

    assert list(ordered_modules(tmp_path)) == ["veth"]
