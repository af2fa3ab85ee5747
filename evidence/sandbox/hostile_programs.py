"""Further programs that a model might write to do harm, and what may become of them at most."""

from __future__ import annotations

from meta_tests.scorers.sandbox.hostile import (
    LIMITS,
    Hostile,
    ends_well,
    fails_with,
    flooded,
    meets,
    out_of_memory,
    reports,
    timed_out,
)
from mlperf_suite.scorers.sandbox.box import MEBIBYTE, Limits

FURTHER = {
    # Processes.
    "fork bomb": Hostile(
        "while True:\n    try: os.fork()\n    except OSError: pass",
        timed_out,
        LIMITS,
    ),
    "more threads than it may have": Hostile(
        """
try:
    for _ in range(1000): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
except RuntimeError: tell("RuntimeError")
sys.stdout.flush(); os._exit(0)
""",
        meets("RuntimeError"),
    ),
    "zombies": Hostile(
        """
for _ in range(200):
    try:
        if os.fork() == 0: os._exit(0)
    except OSError: pass
""",
        ends_well,
    ),
    "ignores SIGTERM": Hostile(
        "for n in range(1, 65):\n    tried(signal.signal, n, signal.SIG_IGN)\n"
        "while True: time.sleep(60)",
        timed_out,
        LIMITS,
    ),
    "spins in every thread": Hostile(
        "def f():\n    while True: pass\n"
        "for _ in range(8): threading.Thread(target=f, daemon=True).start()\nf()",
        timed_out,
        LIMITS,
    ),
    "stops itself": Hostile("os.kill(os.getpid(), signal.SIGSTOP)", timed_out, LIMITS),
    "stops itself and its supervisor": Hostile(
        "os.kill(1, signal.SIGSTOP); os.kill(1, signal.SIGKILL); os.kill(1, signal.SIGINT)\n"
        "os.kill(1, signal.SIGTERM); os.kill(os.getpid(), signal.SIGSTOP)",
        timed_out,
        LIMITS,
    ),
    "takes more rights by priority": Hostile(
        "tell(tried(os.nice, -10),"
        " tried(os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(1)))",
        fails_with("EPERM", "EACCES"),
    ),
    "lets the kernel choose another": Hostile(
        "tell(tried(open, '/proc/self/oom_score_adj', 'w'),"
        " tried(open, '/proc/thread-self/oom_adj', 'w'))",
        meets("EROFS", "EROFS"),
    ),
    # Memory.
    "all memory, by many": Hostile(
        "for _ in range(3): os.fork()\nx = bytearray(b'x') * (40 * 2**20)\ntime.sleep(60)",
        out_of_memory,
    ),
    "shares memory and stays below": Hostile(
        "x = bytearray(b'x') * (60 * 2**20)\n"
        "for _ in range(2): os.fork()\ntime.sleep(0.3)\nos._exit(0)",
        ends_well,
    ),
    "all address space": Hostile(
        "tell(tried(bytearray, 2**32))",
        meets("MemoryError"),
        Limits(wall_s=1, address_space_bytes=256 * MEBIBYTE),
    ),
    # Pages of these stay when no process maps them any more, and no process shows them.
    "shared memory without a name": Hostile(
        "import mmap\nshared = lambda *flags: mmap.mmap(-1, 2**21, *flags)\n"
        "tell(tried(shared), tried(shared, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | 2),"
        " tried(shared, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000))",
        fails_with("EPERM"),
    ),
    "shared memory of a device": Hostile("tell(tried(open, '/dev/zero'))", meets("ENOENT")),
    "pages kept in a pipe": Hostile(
        "import fcntl\nends = os.pipe()\n"
        "tell(called('vmsplice', ends[1], 0, 0, 0), tried(fcntl.fcntl, ends[1], 1031, 2**20))",
        fails_with("EPERM"),
    ),
    "what the kernel keeps for a program": Hostile(
        "context = ctypes.c_ulong(0)\n"
        "tell(called('syscall', {io_setup}, 1, ctypes.byref(context)), called('inotify_init1', 0),"
        " called('syscall', 444, 0, 0, 1), called('socketpair', 30, 1, 0, 0),"
        " tried(socket.socket(socket.AF_UNIX).setsockopt, 1, socket.SO_SNDBUF, 2**22),"
        " tried(resource.setrlimit, resource.RLIMIT_SIGPENDING, (2000, 2000)))",
        fails_with("EPERM", "ValueError"),
    ),
    "page tables": Hostile(
        "libc.mmap.restype = ctypes.c_size_t\nstep = 2**21\nwhile True:\n"
        "    begin = libc.mmap(0, ctypes.c_size_t(2**40), 3, 0x4022, -1, 0)\n"
        "    for at in range(begin, begin + 2**40, step): ctypes.string_at(at, 1)",
        out_of_memory,
    ),
    "sockets' buffers": Hostile(
        """
for _ in range(15):
    if not os.fork(): break
pairs = [socket.socketpair() for _ in range(29)]
for end in (end for pair in pairs for end in pair):
    end.setblocking(False)
    try:
        while True: end.send(bytes(2**16))
    except BlockingIOError: pass
time.sleep(60)
""",
        out_of_memory,
    ),
    "memory of a process whose first thread has ended": Hostile(
        """
def hold():
    time.sleep(0.2)
    held = []
    while True: held.append(bytearray(2**20))
threading.Thread(target=hold).start()
libc.pthread_exit(None)
""",
        out_of_memory,
    ),
    "deep recursion": Hostile(
        "sys.setrecursionlimit(10**9)\nclass A:\n"
        "    def __getattr__(self, name): return getattr(self, name + 'x')\nA().x",
        lambda outcome: outcome.signal is not None or outcome.exit_code == 1 or outcome.timed_out,
    ),
    "raises its limits": Hostile(
        "tell(*(tried(resource.setrlimit, n, (-1, -1)) for n in (resource.RLIMIT_NPROC,"
        " resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_CORE)))",
        fails_with("EPERM", "ValueError"),
    ),
    # Files.
    "fills shared memory": Hostile(
        """
try:
    with open("/dev/shm/x", "wb", buffering=0) as file:
        while True: file.write(bytes(65536))
except OSError as error: tell(errno.errorcode[error.errno])
""",
        fails_with("ENOSPC", "EFBIG"),
    ),
    "a sparse file of a tebibyte": Hostile(
        "tell(tried(os.truncate, os.open('x', os.O_CREAT | os.O_WRONLY), 2**40))",
        meets("EFBIG"),
    ),
    "100,000 files at once": Hostile(
        "x = []\ntry:\n    while len(x) < 10**5: x.append(open(f'{len(x)}', 'w'))\n"
        "except OSError as error:\n    tell(errno.errorcode[error.errno])",
        meets("EMFILE"),
    ),
    "100,000 files one after another": Hostile(
        "try:\n    for n in range(10**5): os.mkdir(f'{n}')\n"
        "except OSError as error:\n    tell(errno.errorcode[error.errno])",
        meets("ENOSPC"),
    ),
    "leaves something else than a file": Hostile(
        "os.mkfifo('fifo'); os.mkdir('folder'); open('file', 'w').write('x')",
        lambda outcome: dict(outcome.files) == {"file": b"x"},
        keep=("fifo", "folder", "file"),
    ),
    "makes a device": Hostile(
        "tell(tried(os.mknod, 'x', 0o60666, os.makedev(254, 0)))", meets("EPERM")
    ),
    "leaves its root": Hostile(
        "os.mkdir('x'); tell(tried(os.chroot, 'x'), called('pivot_root', b'x', b'x')"
        " if hasattr(libc, 'pivot_root') else 'EPERM', tried(os.stat, '/../../../../{secret}'))",
        fails_with("EPERM", "ENOENT"),
    ),
    "mounts": Hostile(
        "tell(called('mount', b'none', b'/tmp', b'tmpfs', 0, None),"
        " called('umount2', b'/proc', 2))",
        meets("EPERM", "EPERM"),
    ),
    "opens the root by a handle": Hostile(
        "tell(called('name_to_handle_at', -100, b'/', 0, 0, 0),"
        " called('open_by_handle_at', -100, 0, 0))",
        meets("EPERM", "EPERM"),
    ),
    # Rights.
    "a namespace by clone3": Hostile(
        "tell(called('syscall', 435, ctypes.create_string_buffer(88), 88))",
        meets("ENOSYS"),
    ),
    "becomes root": Hostile(
        "tell(tried(os.setuid, 0), tried(os.setgid, 0), tried(os.setgroups, [0]),"
        " tried(os.setresuid, 0, 0, 0), str(os.getuid()), str(os.geteuid()))",
        lambda outcome: set(reports(outcome)) == {"EPERM", "1000"},
    ),
    "traces its parent": Hostile(
        "tell(called('ptrace', 16, 1, 0, 0), called('process_vm_readv', 1, 0, 0, 0, 0, 0),"
        " called('ptrace', 0, 0, 0, 0))",
        fails_with("EPERM"),
    ),
    "reads its parent": Hostile(
        "tell(*(tried(open, '/proc/1/' + name) for name in ('environ', 'mem', 'maps')),"
        " tried(os.listdir, '/proc/1/fd'), tried(os.readlink, '/proc/1/root'))",
        fails_with("EACCES", "EPERM"),
    ),
    "parts of the kernel": Hostile(
        "tell(called('syscall', 425, 1, 0), called('syscall', {bpf}, 0, 0, 0),"
        " called('syscall', {perf}, 0, 0, 0, 0, 0), called('syscall', {keyctl}, 0, 0, 0))",
        fails_with("EPERM"),
    ),
    "reboots": Hostile("tell(called('reboot', 0x1234567))", meets("EPERM")),
    # Secrets and ways out.
    "uses files left open": Hostile(
        "tell(*(tried(os.fstat, n) for n in range(3, 1024)))", fails_with("EBADF")
    ),
    "connects to this machine": Hostile(
        "tell(tried(socket.create_connection, ('127.0.0.1', {port}), 0.3),"
        " tried(socket.socket(socket.AF_UNIX).connect, '\\0{mark}'))",
        fails_with("EPERM", "ECONNREFUSED"),
    ),
    "connects elsewhere": Hostile(
        "tell(tried(socket.create_connection, ('1.1.1.1', 53), 0.3),"
        " tried(socket.getaddrinfo, 'example.org', 80))",
        lambda outcome: not any("socket" in word or "(" in word for word in reports(outcome)),
    ),
    # Verdicts.
    "endless errors": Hostile("while True: os.write(2, b'x' * 65536)", flooded, LIMITS),
    "closes its files": Hostile(
        "for n in range(3): os.close(n)\nos._exit(7)", lambda o: o.exit_code == 7
    ),
    "ends by a signal": Hostile(
        "os.kill(os.getpid(), signal.SIGSEGV)", lambda outcome: outcome.signal == 11
    ),
}
