#!/bin/sh
# PID 1 of a guest. Loads modules, makes a root of the host's folders, runs one program in it, says how that ended, and
# powers off. It reads, from the archive that it came in:
#   /mod/order        modules, in the order in which they are loaded
#   /job/options      DISK: image, tmpfs:SIZE or none (then it says that it is up, and ends); STORE: 9p, or erofs where
#                     what is needed of the Nix store is on a disk; WATCHDOG_S
#   /job/binds        folders of the host, one a line, that the program needs although they lie in one of the guest's own
#   /job/command      the program, a shell script
# and says, a line of JSON each, over the virtio port `pgbed`:
#   {"booted": RELEASE, "s": SECONDS}, and at last {"status": EXIT CODE}

export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
. /job/options

say() { echo "pgbed: $*" > /dev/kmsg; }
disk() {
  for block in /sys/block/vd*; do
    [ "$(cat "$block/serial")" != "$1" ] || echo "/dev/${block##*/}"
  done
}
uptime_s() { cut -d ' ' -f 1 /proc/uptime; }

while read -r module; do
  insmod "/mod/$module.ko" || say "module $module does not load"
done < /mod/order

channel=
for port in /sys/class/virtio-ports/*; do
  [ "$(cat "$port/name")" != pgbed ] || channel=/dev/${port##*/}
done
[ -n "$channel" ] || say "there is no virtio port named pgbed"
tell() { echo "$*" > "$channel"; }
tell "{\"booted\": \"$(uname -r)\", \"s\": $(uptime_s)}"
[ "$DISK" != none ] || poweroff -f

# A kernel whose processes do not run any more is ended by the watchdog, which then is not fed.
[ ! -e /dev/watchdog ] || watchdog -t 2 -T "$WATCHDOG_S" /dev/watchdog

mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=loose,ro host /host || say "the host's files cannot be mounted"
mount -t tmpfs -o mode=755 root /root
for path in /host/*; do
  name=${path#/host/}
  case $name in
    dev | proc | sys | run | tmp | mnt | media | lost+found | bench) ;;
    *)
      if [ -L "$path" ]; then
        ln -s "$(readlink "$path")" "/root/$name"
      elif [ -d "$path" ]; then
        mkdir "/root/$name" && mount --bind "$path" "/root/$name"
      fi
      ;;
  esac
done
cd /root || poweroff -f
if [ "$STORE" = erofs ] && ! mount -t erofs -o ro "$(disk store)" nix/store; then
  say "the image of programs cannot be mounted"
  poweroff -f
fi
mkdir -p dev proc sys run tmp bench
mount --rbind /dev dev
mount -t proc proc proc
mount --rbind /sys sys
mkdir -p dev/shm dev/pts
mount -t tmpfs -o mode=1777 shm dev/shm
mount -t devpts -o mode=620,ptmxmode=666 devpts dev/pts
mount -t tmpfs -o mode=755 run run
mount -t tmpfs -o mode=1777 tmp tmp
mount -t tracefs tracefs sys/kernel/tracing
mount -t debugfs debugfs sys/kernel/debug
mount -t bpf bpf sys/fs/bpf
mount -t cgroup2 cgroup2 sys/fs/cgroup
[ ! -d var/tmp ] || mount -t tmpfs -o mode=1777 tmp var/tmp
case $DISK in
  image) mount -t ext4 -o noatime "$(disk disk)" bench || say "the disk cannot be mounted" ;;
  tmpfs:*) mount -t tmpfs -o "mode=755,size=${DISK#tmpfs:}" bench bench ;;
esac
while IFS= read -r path; do
  mkdir -p "/root$path" && mount --bind "/host$path" "/root$path" || say "no $path"
done < /job/binds
ip link set lo up
hostname pgbed
cp -r /job run/pgbed
ln -s "$channel" run/pgbed/channel

say "userland at $(uptime_s) s"
chroot /root /run/pgbed/command < /dev/null > /dev/ttyS0 2>&1
status=$?
say "ended with $status at $(uptime_s) s"
tell "{\"status\": $status}"
umount bench
sync
poweroff -f
