"""The seccomp filter of a sandboxed program: the system calls that it may not make.

Namespaces and an unprivileged user already confine the program. The filter blocks calls that reach
around them: attacks on the sandbox's supervisor (ptrace), a new namespace in which the program
would be root again, sockets that no network namespace confines (AF_VSOCK), and memory that
`inside.py` cannot count: pages that belong to no process and to no tmpfs (memfd, System V, shared
mappings without a file, pages given to a pipe), and objects that the kernel keeps (io_uring, AIO,
inotify, Landlock).

It is classic BPF for the kernel's struct seccomp_data (linux/seccomp.h), made here since it only
needs a list of numbers: 64-bit Linux on x86 and Arm.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator

_X86, _ARM = "x86_64", "aarch64"

_AUDIT_ARCHITECTURE = {_X86: 0xC000003E, _ARM: 0xC00000B7}
"""AUDIT_ARCH_X86_64 and AUDIT_ARCH_AARCH64 of linux/audit.h."""

_REFUSED: dict[str, tuple[int | None, int | None]] = {
    # Other processes, above all the supervisor.
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    # Namespaces and mounts.
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "fanotify_init": (300, 262),
    # Parts of the kernel that no graded program needs and that have had vulnerabilities.
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    # Memory that belongs to no process and to no tmpfs.
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "semget": (64, 190),
    "vmsplice": (278, 75),
    "io_setup": (206, 0),
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
    "landlock_create_ruleset": (444, 444),
    # The machine itself.
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "vhangup": (153, 58),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
}
"""Refused with EPERM: the numbers on x86_64 (asm/unistd_64.h) and on aarch64 (asm-generic)."""

_CLONE3 = (435, 435)
_NEW_NAMESPACES = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET of linux/sched.h."""
_AF_UNIX = 1
_SHARED_ANONYMOUS, _HUGE_PAGES = 0x21, 0x40000
"""Of mmap's flags; the bit of MAP_SHARED is also MAP_SHARED_VALIDATE's and not MAP_PRIVATE's."""
_SEND_BUFFER, _PIPE_SIZE = 7, 1031
"""SO_SNDBUF and F_SETPIPE_SZ, which would hold more than is counted for each socket and pipe."""
_ALL = 0xFFFFFFFF

_REFUSED_ARGUMENTS: tuple[tuple[tuple[int, int], int, int, int, bool], ...] = (
    ((9, 222), 3, _SHARED_ANONYMOUS, _SHARED_ANONYMOUS, True),  # mmap
    ((9, 222), 3, _HUGE_PAGES, _HUGE_PAGES, True),
    ((56, 220), 0, _NEW_NAMESPACES, 0, False),  # clone
    ((41, 198), 0, _ALL, _AF_UNIX, False),  # socket
    ((53, 199), 0, _ALL, _AF_UNIX, False),  # socketpair
    ((54, 208), 2, _ALL, _SEND_BUFFER, True),  # setsockopt
    ((72, 25), 1, _ALL, _PIPE_SIZE, True),  # fcntl
)
"""Refused with EPERM if these bits of that argument have this value, or with False unless they
have."""
_X32_BIT = 0x40000000

_LOAD_WORD, _AND, _RETURN = 0x20, 0x54, 0x06
_JUMP_EQUAL, _JUMP_AT_LEAST = 0x15, 0x35
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
"""Offsets in struct seccomp_data; an argument has 8 bytes, its lower half first on both
architectures."""

_KILL, _ERROR, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000


def known_machine(machine: str) -> bool:
    """Whether there is a filter for a machine, named as in platform.machine()."""
    return machine in _AUDIT_ARCHITECTURE


def filter_program(machine: str) -> bytes:
    """The filter as consecutive struct sock_filter. Raises KeyError for an unknown machine."""
    return b"".join(struct.pack("<HBBI", *step) for step in _steps(machine))


def _steps(machine: str) -> Iterator[tuple[int, int, int, int]]:
    """Operation, steps to jump if true and if false, operand."""
    column = 0 if machine == _X86 else 1
    refuse = (_RETURN, 0, 0, _ERROR | errno.EPERM)
    unknown = (_RETURN, 0, 0, _ERROR | errno.ENOSYS)
    yield (_LOAD_WORD, 0, 0, _ARCHITECTURE_AT)
    yield (_JUMP_EQUAL, 1, 0, _AUDIT_ARCHITECTURE[machine])
    yield (_RETURN, 0, 0, _KILL)
    yield (_LOAD_WORD, 0, 0, _NUMBER_AT)
    if machine == _X86:
        # The same calls have other numbers in the x32 ABI.
        yield (_JUMP_AT_LEAST, 0, 1, _X32_BIT)
        yield unknown
    for numbers in _REFUSED.values():
        number = numbers[column]
        if number is not None:
            yield (_JUMP_EQUAL, 0, 1, number)
            yield refuse
    # Its flags are in memory, which no filter can read; the C library then uses clone.
    yield (_JUMP_EQUAL, 0, 1, _CLONE3[column])
    yield unknown
    for pair, argument, bits, value, equal in _REFUSED_ARGUMENTS:
        yield (_LOAD_WORD, 0, 0, _NUMBER_AT)
        yield (_JUMP_EQUAL, 0, 4, pair[column])
        yield (_LOAD_WORD, 0, 0, _ARGUMENTS_AT + 8 * argument)
        yield (_AND, 0, 0, bits)
        yield (_JUMP_EQUAL, *((0, 1) if equal else (1, 0)), value)
        yield refuse
    yield (_RETURN, 0, 0, _ALLOW)
