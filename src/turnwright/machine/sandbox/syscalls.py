"""Numbers of the system calls that the filter names, for the processors it knows."""

from __future__ import annotations

from types import MappingProxyType

import msgspec


class Processor(msgspec.Struct, frozen=True, kw_only=True):
    audit: int
    """How the kernel names the processor (AUDIT_ARCH)."""
    numbers: MappingProxyType[str, int]
    second_table: int | None = None
    """Calls from this number on are another way to say the same (x32)."""


def _table(text: str) -> MappingProxyType[str, int]:
    words = text.split()
    return MappingProxyType({name: int(number) for name, number in zip(words[::2], words[1::2], strict=True)})


_X86_64 = _table("""
    ptrace 101 process_vm_readv 310 process_vm_writev 311 pidfd_getfd 438 kcmp 312 keyctl 250 add_key 248
    request_key 249 bpf 321 perf_event_open 298 userfaultfd 323 io_uring_setup 425 io_uring_enter 426
    io_uring_register 427 mount 165 umount2 166 move_mount 429 open_tree 428 open_tree_attr 467 fsopen 430 fsconfig 431
    fsmount 432 fspick 433 mount_setattr 442 pivot_root 155 chroot 161 setns 308 unshare 272 swapon 167 swapoff 168
    reboot 169 kexec_load 246 kexec_file_load 320 init_module 175 finit_module 313 delete_module 176 acct 163
    quotactl 179 quotactl_fd 443 syslog 103 settimeofday 164 clock_settime 227 clock_adjtime 305 adjtimex 159
    sethostname 170 setdomainname 171 iopl 172 ioperm 173 lookup_dcookie 212 vhangup 153 open_by_handle_at 304
    name_to_handle_at 303 fanotify_init 300 modify_ldt 154 _sysctl 156 uselib 134 sysfs 139 clone 56 clone3 435
    socket 41 socketpair 53 ioctl 16 prlimit64 302 open 2 openat 257 openat2 437 creat 85 chmod 90 fchmod 91
    fchmodat 268 fchmodat2 452 mknod 133 mknodat 259
""")

_AARCH64 = _table("""
    ptrace 117 process_vm_readv 270 process_vm_writev 271 pidfd_getfd 438 kcmp 272 keyctl 219 add_key 217
    request_key 218 bpf 280 perf_event_open 241 userfaultfd 282 io_uring_setup 425 io_uring_enter 426
    io_uring_register 427 mount 40 umount2 39 move_mount 429 open_tree 428 open_tree_attr 467 fsopen 430 fsconfig 431
    fsmount 432 fspick 433 mount_setattr 442 pivot_root 41 chroot 51 setns 268 unshare 97 swapon 224 swapoff 225
    reboot 142 kexec_load 104 kexec_file_load 294 init_module 105 finit_module 273 delete_module 106 acct 89
    quotactl 60 quotactl_fd 443 syslog 116 settimeofday 170 clock_settime 112 clock_adjtime 266 adjtimex 171
    sethostname 161 setdomainname 162 lookup_dcookie 18 vhangup 58 open_by_handle_at 265 name_to_handle_at 264
    fanotify_init 262 clone 220 clone3 435 socket 198 socketpair 199 ioctl 29 prlimit64 261 openat 56 openat2 437
    fchmod 52 fchmodat 53 fchmodat2 452 mknodat 33
""")

PROCESSORS = MappingProxyType(
    {
        "x86_64": Processor(audit=0xC000003E, numbers=_X86_64, second_table=0x40000000),
        "aarch64": Processor(audit=0xC00000B7, numbers=_AARCH64),
    }
)
