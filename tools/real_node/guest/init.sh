#!/bin/busybox sh
# The first process of a node in a virtual machine: mounts and network, then the node's programs.
# It starts programs again that end. /etc/node has its settings, and one script for each program.

/bin/busybox --install -s /bin
export PATH=/bin HOME=/root TMPDIR=/tmp
. /etc/node/settings

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t cgroup2 cgroup2 /sys/fs/cgroup
for controller in $(cat /sys/fs/cgroup/cgroup.controllers); do
    echo "+$controller" >/sys/fs/cgroup/cgroup.subtree_control
done
# As under systemd, programs are not in the root cgroup, which has no memory.swap.max: the kubelet
# would take swap for something that the kernel cannot limit.
mkdir /sys/fs/cgroup/system
echo $$ >/sys/fs/cgroup/system/cgroup.procs
mount --make-rshared /

hostname "$NODE"
ip link set lo up
ip addr add "$ADDRESS/24" dev eth0
ip link set eth0 up
ip route add default via "$GATEWAY"
echo 1 >/proc/sys/net/ipv4/ip_forward

# The device of a port of the machine, by the port's name, once it is there.
port() {
    while :; do
        for device in /sys/class/virtio-ports/*; do
            if [ "$(cat "$device/name")" = "$1" ]; then
                echo "/dev/${device##*/}"
                return
            fi
        done
        sleep 0.1
    done
}

# A program's output goes to the port of its name, which is a file outside of the machine.
keep_running() {
    exec >"$(port "$1")" 2>&1
    while :; do
        "/etc/node/$1"
        echo "$1 ended with $?"
        sleep 1
    done
}

# Run commands that come through the port `shell`, one at a time. A request is a line with the size of the
# input and the command in base64, then the input. The answer is a line with the exit code and the
# sizes of output and errors, then both. Without a client, `read` fails at once.
serve() {
    exec 3<>"$(port shell)"
    while :; do
        if read -r size command <&3; then
            dd bs=64k iflag=fullblock,count_bytes count="$size" <&3 >/tmp/input 2>/dev/null
            sh -c "$(echo "$command" | base64 -d)" </tmp/input >/run/output 2>/run/errors 3>&-
            echo "$? $(stat -c %s /run/output) $(stat -c %s /run/errors)" >&3
            cat /run/output /run/errors >&3
        else
            sleep 0.2
        fi
    done
}

keep_running containerd &
serve &
until [ -S "$CONTAINERD_SOCKET" ]; do
    sleep 0.1
done
keep_running kubelet &
keep_running kube-proxy &

# Take the exit codes of orphans.
while :; do
    wait
done
