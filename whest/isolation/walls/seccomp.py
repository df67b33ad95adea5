"""A filter on system calls: no processes, programs, sockets, signals to others, mounts, keys or tracing.

Threads stay, because XLA needs them: `clone` is allowed with CLONE_THREAD alone. Its flags are in a register, where a
filter can see them; those of `clone3` are not, so that call answers ENOSYS and the C library takes `clone` instead.
The filter can't be taken off again, and needs neither root nor namespaces.
"""

import ctypes
import errno
import struct
from collections.abc import Iterable, Sequence

from .kernel import PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, libc, machine, prctl

AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000

CLONE_THREAD = 0x00010000

NEWEST = 462
"""`mseal` of Linux 6.10. Calls that are newer than this list answer ENOSYS, so that no new road opens by itself."""

X32 = 0x40000000
"""Set in the numbers of x86_64's second set of calls, which would pass a filter on the first."""

REFUSED = {  # name: (x86_64, aarch64)
    "fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281),
    "socket": (41, 198), "socketpair": (53, 199), "bind": (49, 200), "connect": (42, 203), "listen": (50, 201),
    "accept": (43, 202), "accept4": (288, 242), "sendto": (44, 206), "sendmsg": (46, 211), "sendmmsg": (307, 269),
    "recvfrom": (45, 207), "recvmsg": (47, 212), "recvmmsg": (299, 243),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "process_madvise": (440, 440), "process_mrelease": (448, 448),
    "pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424),
    "tkill": (200, 130), "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "move_mount": (429, 429),
    "open_tree": (428, 428), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432),
    "fspick": (433, 433), "mount_setattr": (442, 442), "statmount": (457, 457), "listmount": (458, 458),
    "swapon": (167, 224), "swapoff": (168, 225), "quotactl": (179, 60), "quotactl_fd": (443, 443),
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
    "bpf": (321, 280), "userfaultfd": (323, 282), "perf_event_open": (298, 241),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "unshare": (272, 97), "setns": (308, 268),
    "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264), "fanotify_init": (300, 262),
    "reboot": (169, 142), "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171),
    "clock_adjtime": (305, 266), "sethostname": (170, 161), "setdomainname": (171, 162), "acct": (163, 89),
    "syslog": (103, 116), "vhangup": (153, 58), "iopl": (172, None), "ioperm": (173, None),
    "modify_ldt": (154, None), "personality": (135, 92), "lookup_dcookie": (212, 18), "nfsservctl": (180, 42),
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "msgget": (68, 186), "msgsnd": (69, 189),
    "msgrcv": (70, 188), "msgctl": (71, 187), "semget": (64, 190), "semop": (65, 193), "semtimedop": (220, 192),
    "semctl": (66, 191), "mq_open": (240, 180), "mq_unlink": (241, 181),
    "memfd_create": (319, 279), "memfd_secret": (447, 447),
    "setpriority": (141, 140), "ioprio_set": (251, 30), "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118), "sched_setattr": (314, 274), "migrate_pages": (256, 238), "move_pages": (279, 239),
}  # fmt: skip
"""What an estimator has no business calling. `memfd_create` makes memory that a look at the process doesn't show."""

METADATA = {
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, None), "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "utime": (132, None), "utimes": (235, None), "futimesat": (261, None), "utimensat": (280, 88),
}  # fmt: skip
"""Landlock doesn't see these. Where no read-only room does, they are refused too."""

ON_ITSELF = {"kill": (62, 129), "tgkill": (234, 131), "prlimit64": (302, 261), "sched_setaffinity": (203, 122)}
"""Allowed where the first argument is this process."""

WITHOUT = {  # name: numbers, which argument, the values that are refused
    "ioctl": ((16, 29), 1, (0x5412, 0x541C, 0x8901, 0x8902)),  # TIOCSTI, TIOCLINUX, FIOSETOWN, SIOCSPGRP
    "fcntl": ((72, 25), 1, (8, 10, 15, 1024, 1026)),  # F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE, F_NOTIFY
    "prctl": ((157, 167), 0, (1,)),  # PR_SET_PDEATHSIG
}
"""A descriptor's owner gets signals: to name another process as the owner would be a way to send it some. A worker ends
with its parent, and can't change that."""

CLONE, CLONE3, MMAP = (56, 220), (435, 435), (9, 222)

MAP_SHARED, MAP_ANONYMOUS = 0x01, 0x20
"""Shared memory without a file: pages that are given up stay allocated, and a look at the process doesn't show them."""

Instruction = tuple[int, int, int, int]

LOAD, JUMP_EQUAL, JUMP_GREATER, JUMP_SET, RETURN = 0x20, 0x15, 0x25, 0x45, 0x06


def program(architecture: str, own_pid: int, with_metadata: bool) -> list[Instruction]:
    """The filter as classic BPF: each rule is a test of the number and the few steps that it guards."""
    at = 0 if architecture == "x86_64" else 1
    refused = {**REFUSED, **(METADATA if with_metadata else {})}
    lines: list[Instruction] = [
        (LOAD, 0, 0, 4),  # the architecture of the call
        (JUMP_EQUAL, 1, 0, AUDIT_ARCH[architecture]),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, 0),  # the number of the call
    ]
    if architecture == "x86_64":
        lines += [(JUMP_SET, 0, 1, X32), (RETURN, 0, 0, KILL)]
    lines += [(JUMP_GREATER, 0, 1, NEWEST), (RETURN, 0, 0, ERRNO | errno.ENOSYS)]
    lines += _rule(CLONE3[at], [(RETURN, 0, 0, ERRNO | errno.ENOSYS)])
    lines += _rule(CLONE[at], [(LOAD, 0, 0, 16), (JUMP_SET, 0, 1, CLONE_THREAD), *_verdicts()])
    deny, allow = (RETURN, 0, 0, ERRNO | errno.EPERM), (RETURN, 0, 0, ALLOW)
    shared = [(LOAD, 0, 0, 16 + 8 * 3), (JUMP_SET, 0, 2, MAP_ANONYMOUS), (JUMP_SET, 0, 1, MAP_SHARED), deny, allow]
    lines += _rule(MMAP[at], shared)
    for numbers in ON_ITSELF.values():
        own = (0, own_pid) if numbers in (ON_ITSELF["prlimit64"], ON_ITSELF["sched_setaffinity"]) else (own_pid,)
        lines += _rule(numbers[at], [(LOAD, 0, 0, 16), *_equal_to_any(own)])
    for numbers, argument, values in WITHOUT.values():
        lines += _rule(numbers[at], [(LOAD, 0, 0, 16 + 8 * argument), *_equal_to_any(values, refuse=True)])
    for number in (numbers[at] for numbers in refused.values()):
        if number is not None:
            lines += _rule(number, [(RETURN, 0, 0, ERRNO | errno.EPERM)])
    return [*lines, (RETURN, 0, 0, ALLOW)]


def _rule(number: int, steps: Sequence[Instruction]) -> list[Instruction]:
    return [(JUMP_EQUAL, 0, len(steps), number), *steps]


def _verdicts(refuse: bool = False) -> list[Instruction]:
    """What a test that holds leads to, and what one that doesn't."""
    allow, deny = (RETURN, 0, 0, ALLOW), (RETURN, 0, 0, ERRNO | errno.EPERM)
    return [deny, allow] if refuse else [allow, deny]


def _equal_to_any(values: Sequence[int], refuse: bool = False) -> list[Instruction]:
    n = len(values)
    tests = [(JUMP_EQUAL, n - 1 - i, 0 if i < n - 1 else 1, value) for i, value in enumerate(values)]
    return [*tests, *_verdicts(refuse)]


def packed(lines: Iterable[Instruction]) -> bytes:
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


def refuse_calls(own_pid: int, with_metadata: bool) -> None:
    """Put the filter on; from here on the calls above fail with EPERM."""
    install(packed(program(machine(), own_pid, with_metadata)))


def install(code: bytes) -> None:
    buffer = ctypes.create_string_buffer(code, len(code))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))

    described = Program(len(code) // 8, ctypes.addressof(buffer))
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    if libc().prctl(PR_SET_SECCOMP, 2, ctypes.byref(described), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the kernel refuses the filter")
