#!/bin/busybox sh
# The first program of a virtual machine's kernel, in memory: load modules, go on from the disk.
/bin/busybox mkdir -p /dev /disk
/bin/busybox mount -t devtmpfs devtmpfs /dev
for module in /modules/*; do
    /bin/busybox insmod "$module" || echo "insmod $module failed"
done
until [ -b /dev/vda ]; do
    /bin/busybox sleep 0.1
done
/bin/busybox mount -t ext4 /dev/vda /disk
exec /bin/busybox switch_root /disk /sbin/init
