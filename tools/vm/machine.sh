# Sourced by the other programs of this directory: builds the root of a virtual machine, and boots it.
#
# Environment:
#   MEMORY        memory of the machine in MiB [2048]
#   CPUS          number of its processors [2]
#   TIMEOUT       limit in seconds [3000]
#   ACCELERATION  accelerator of QEMU, such as kvm [tcg,thread=multi]
#   PARAMETERS    further kernel parameters, such as lockdown=confidentiality
#   ALLOW_SKIPS   1: skipped tests do not count as failures
# Needs qemu-system-x86, busybox-static, kmod, cpio and zstd.

# Sets `root` to a new directory with busybox, and `kernel` to the directory of the kernel.
new_root() {
    local program applet
    for program in qemu-system-x86_64 busybox modprobe depmod cpio zstd; do
        command -v "$program" >/dev/null || { echo "$program is not installed" >&2; exit 1; }
    done
    kernel=$(realpath "$1")
    machine_directory=$(mktemp -d)
    trap 'rm -rf "$machine_directory"' EXIT
    root=$machine_directory/root
    mkdir -p "$root"/{bin,sbin,proc,sys,dev,tmp,run,etc,root,usr/bin,usr/sbin}
    cp "$(command -v busybox)" "$root/bin/busybox"
    for applet in sh mount umount cat echo mkdir insmod ip poweroff sleep grep cut uname ls chmod kill tail sysctl; do
        ln -s busybox "$root/bin/$applet"
    done
    mkdir -p "$root/var"
    ln -s /run "$root/var/run"
    printf 'root:x:0:0::/root:/bin/sh\n' >"$root/etc/passwd"
}

# Builds a test program, and prints its path: a library's unit tests, or a file in tests/. `name` is its name; the arguments are those of cargo.
program() {
    cargo test --quiet "$@" --no-run --message-format=json |
        sed -n 's/.*"name":"'"$name"'".*"executable":"\([^"]*\)".*/\1/p' | tail -1
}

# Prints the latest program of this name in TARGET that has a test with that text in its name: two crates have tests called "traffic".
latest() {
    local built
    for built in $(find "$TARGET" -maxdepth 1 -type f -executable -name "$1-*" -printf '%T@ %p\n' | sort -rn | cut -d' ' -f2); do
        ! "$built" --list 2>/dev/null | grep "$2" >/dev/null || { echo "$built"; return; }
    done
}

# Copies a program to the path in the root, with the libraries that it loads.
copy() {
    mkdir -p "$root$(dirname "$2")"
    cp -L "$1" "$root$2"
    { ldd "$1" 2>/dev/null | grep -oE '/[^ ]+\.so[^ ]*' || true; } | sort -u | while read -r library; do
        mkdir -p "$root$(dirname "$library")"
        [ -e "$root$library" ] || cp -L "$library" "$root$library"
    done
}

# Copies the programs of iptables, of both variants, and their extensions.
copy_iptables() {
    local variant tool suffix path extensions
    for variant in legacy nft; do
        for tool in iptables ip6tables; do
            for suffix in "" -save -restore; do
                path=/usr/sbin/$tool-$variant$suffix
                [ ! -x "$path" ] || copy "$path" "$path"
            done
        done
    done
    for extensions in /usr/lib/*/xtables; do
        [ -d "$extensions" ] || continue
        mkdir -p "$root$extensions"
        cp "$extensions"/* "$root$extensions/"
    done
}

# Copies kernel modules, each after those that it needs; `without_modules` names modules to leave out.
copy_modules() {
    local version modules module path name
    version=$(basename "$(echo "$kernel"/lib/modules/*)")
    [ -e "$kernel/lib/modules/$version/modules.dep" ] || depmod -b "$kernel" "$version"
    modules="ip_vs ip_vs_rr ip_vs_wrr ip_vs_lc ip_vs_wlc ip_vs_lblc ip_vs_lblcr ip_vs_sh ip_vs_dh ip_vs_sed ip_vs_nq ip_vs_mh
        nf_conntrack nf_conntrack_netlink nf_tables nft_chain_nat nft_nat nft_masq nft_ct nft_numgen nft_hash nft_fib_inet
        nft_reject_inet nft_redir nfnetlink_log nf_log_syslog sctp dummy veth bridge br_netfilter
        nft_compat xt_MASQUERADE xt_conntrack xt_comment xt_mark xt_statistic xt_nat xt_tcpudp xt_addrtype xt_multiport xt_recent
        xt_physdev xt_sctp xt_nfacct xt_REDIRECT ipt_REJECT ip6t_REJECT iptable_nat iptable_filter iptable_mangle ip6table_nat ip6table_filter
        ip6table_mangle nf_reject_ipv4 nf_reject_ipv6 xt_set xt_ipvs ip_set_hash_ip ip_set_hash_ipport ip_set_hash_ipportip
        ip_set_hash_ipportnet ip_set_bitmap_port vxlan vrf"
    for module in $modules; do
        case " ${without_modules:-} " in *" $module "*) continue ;; esac
        modprobe -d "$kernel" -S "$version" --show-depends "$module" 2>/dev/null || true
    done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | awk '!seen[$0]++' >"$machine_directory/modules"
    while read -r path; do
        name=${path#"$kernel"}
        mkdir -p "$root$(dirname "$name")"
        cp "$path" "$root$name"
        echo "$name"
    done <"$machine_directory/modules" >"$root/etc/modules"
}

# Boots the machine, runs /root/run in it, and prints its output. Returns the status of that program.
boot() {
    copy_modules
    cat >"$root/init" <<'INIT'
#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root RUST_BACKTRACE=0
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /sys/fs/cgroup
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
mkdir -p /run/netns
mount -t cgroup2 cgroup /sys/fs/cgroup
mount -t bpf bpf /sys/fs/bpf
mount -t securityfs security /sys/kernel/security
while read -r module; do
    insmod "$module" 2>/dev/null
done </etc/modules
ip link set lo up
echo "machine: kernel $(uname -r), modules loaded at $(cut -d' ' -f1 /proc/uptime) s"
sh /root/run 2>&1
echo "RESULT=$?"
echo "machine: ended at $(cut -d' ' -f1 /proc/uptime) s"
sleep 1
poweroff -f
INIT
    chmod +x "$root/init"
    (cd "$root" && find . | cpio -o -H newc --quiet) | zstd -q -1 >"$machine_directory/initrd"
    timeout "${TIMEOUT:-3000}" qemu-system-x86_64 -accel "${ACCELERATION:-tcg,thread=multi}" -cpu max -smp "${CPUS:-2}" -m "${MEMORY:-2048}" \
        -kernel "$kernel"/boot/vmlinuz-* -initrd "$machine_directory/initrd" \
        -append "console=ttyS0 quiet panic=-1 loglevel=3 mitigations=off ${PARAMETERS:-}" \
        -nographic -no-reboot -nodefaults -serial stdio -monitor none </dev/null | tee "$machine_directory/log" | tr -d '\r'
    grep -q '^RESULT=0' "$machine_directory/log"
}

# Boots the machine. Exits with 1 if a test fails, or if one is skipped.
boot_tests() {
    local output skipped status=0
    output=$machine_directory/output
    boot | tee "$output" || status=$?
    skipped=$(grep -c '^skipped: ' "$output" || true)
    [ "$status" = 0 ] || { echo "tests failed" >&2; exit 1; }
    if [ "${ALLOW_SKIPS:-0}" != 1 ] && [ "$skipped" != 0 ]; then
        echo "tests were skipped: $skipped" >&2
        exit 1
    fi
}
