"""Hostile snippets as data. Each leaves in `got` what it came for; behind the walls it gets nothing.

Each is harmless where it succeeds: signals are signal 0, files are opened and not written to, children end at once.
"""

NUMBERS = "NR = {'x86_64': 0, 'aarch64': 1}[os.uname().machine]\n"

PLANT = "open({0}, 'x').close()\nos.unlink({0})\ngot = True"

FILES = {
    "reading the truth": "got = open(told['truth']).read()",
    "listing the outputs": "got = os.listdir(told['outputs'])",
    "a file of the user's home": "got = open(told['secret']).read()",
    "through a link in scratch": "os.symlink(told['secret'], 'link'); got = open('link').read()",
    "through a hard link": "os.link(told['secret'], 'hard'); got = open('hard').read()",
    "through /proc/self/root": "got = open('/proc/self/root' + told['secret']).read()",
    "through /proc/1/root": "got = open('/proc/1/root' + told['secret']).read()",
    "through the parent's folder": "got = open('/proc/%d/cwd/secret' % told['host']).read()",
    "with dots": "got = open(os.path.join(os.getcwd(), *['..'] * 20, told['secret'].lstrip('/'))).read()",
    "another worker's folder": "got = [n for n in os.listdir(os.path.dirname(os.path.dirname(os.getcwd()))) "
    "if n != os.path.basename(os.path.dirname(os.getcwd()))]",
    "planting a module beside ours": PLANT.format("told['package'] + '/planted.py'"),
    "writing our code": "got = open(told['package'] + '/errors.py', 'r+')",
    "writing Python's library": PLANT.format("os.path.dirname(os.__file__) + '/planted.py'"),
    "writing the host's canary": "got = open(os.path.dirname(os.getcwd()) + '/canary', 'r+')",
    "making a file in /tmp": PLANT.format("'/tmp/whest-planted-%d' % told['host']"),
    "renaming a file of the user": "os.rename(told['secret'], told['secret'] + '.gone'); "
    "os.rename(told['secret'] + '.gone', told['secret']); got = True",
    "deleting a file of the user": "os.unlink(told['doomed']); got = True",
    "changing the mode of a file of the user": "os.chmod(told['secret'], 0o600); got = True",
    "changing the times of a file of the user": "os.utime(told['secret']); got = True",
    "truncating a file of the user": "os.truncate(told['secret'], 1000); got = True",
    "the host's environment": "got = open('/proc/%d/environ' % told['host']).read()",
    "the host's memory": "got = open('/proc/%d/mem' % told['host'], 'rb')",
    "the host's open files": "got = os.listdir('/proc/%d/fd' % told['host'])",
    "the host's arguments": "got = open('/proc/%d/cmdline' % told['host']).read()",
    "/etc/shadow": "got = open('/etc/shadow').read()",
    "/etc/passwd": "got = open('/etc/passwd').read()",
    "core_pattern": "got = open('/proc/sys/kernel/core_pattern', 'r+')",
    "sysrq": "got = open('/proc/sysrq-trigger', 'w')",
    "shared memory": "got = open('/dev/shm/' + told['shm']).read()",
    "making shared memory": PLANT.format("'/dev/shm/whest-planted-%d' % told['host']"),
    "the disk itself": "got = [n for n in os.listdir('/dev') if n.startswith(('vd', 'sd', 'nvme', 'mem'))]",
    "the kernel's messages": "got = open('/dev/kmsg')",
    "a file handle": NUMBERS + "import ctypes\nbuffer = ctypes.create_string_buffer(b'\\x80' + bytes(200), 201)\n"
    "mount = ctypes.c_int()\n"
    "got = libc.syscall((303, 264)[NR], -100, told['secret'].encode(), buffer, ctypes.byref(mount), 0) == 0",
}
"""What reads or writes a file that isn't the worker's."""

NETWORK = {
    "TCP to the host": "import socket\ngot = socket.create_connection(('127.0.0.1', told['port']), 2)",
    "a UDP socket": "import socket\ngot = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
    "an abstract socket": "import socket\ns = socket.socket(socket.AF_UNIX)\n"
    "s.connect('\\0' + told['abstract'])\ngot = s",
    "a pair of sockets": "import socket\ngot = socket.socketpair()",
    "a netlink socket": "import socket\ngot = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
    "a raw system call": NUMBERS + "got = libc.syscall((41, 198)[NR], 2, 1, 0) >= 0",
    "looking up a name": "import socket\ngot = socket.getaddrinfo('localhost', 80, proto=6) and socket.create_server"
    "(('127.0.0.1', 0))",
    "io_uring": "import ctypes\ngot = libc.syscall(425, 1, ctypes.create_string_buffer(120)) >= 0",
}

FORKED = "if child == 0: os._exit(0)\nif child > 0: os.waitpid(child, 0)\ngot = child > 0"

PROCESSES = {
    "os.fork": f"child = os.fork()\n{FORKED}",
    "fork by the C library": f"child = libc.fork()\n{FORKED}",
    "vfork": "import subprocess\ngot = subprocess.run(['/bin/true']).returncode == 0",
    "clone as a system call": NUMBERS + f"child = libc.syscall((56, 220)[NR], 17, 0, 0, 0, 0)\n{FORKED}",
    "clone3": "import ctypes\narguments = (ctypes.c_uint64 * 8)(0, 0, 0, 0, 17, 0, 0, 0)\n"
    f"child = libc.syscall(435, arguments, 64)\n{FORKED}",
    "posix_spawn": "child = os.posix_spawn('/bin/true', ['true'], {})\nos.waitpid(child, 0)\ngot = True",
    "system": "got = libc.system(b'true') == 0",
    "a program from memory": "fd = os.memfd_create('program')\ngot = fd >= 0",
    "shared memory without a file": "import mmap\nmmap.mmap(-1, 4096)\ngot = True",
    "shared memory by a device": "import mmap\nfd = os.open('/dev/zero', os.O_RDWR)\n"
    "mmap.mmap(fd, 4096)\nos.close(fd)\ngot = True",
    "a mount": "got = libc.mount(b'none', os.getcwd().encode(), b'tmpfs', 0, None) == 0",
    "a signal to the host": "os.kill(told['host'], 0)\ngot = True",
    "a signal to everybody": "os.kill(-1, 0)\ngot = True",
    "a signal to the process group": "os.killpg(0, 0)\ngot = True",
    "a queued signal": NUMBERS + "got = libc.syscall((200, 130)[NR], told['host'], 0) == 0",
    "a signal by a descriptor": "got = libc.syscall(434, told['host'], 0) >= 0",
    "a signal by owning a pipe": "import fcntl\nr, w = os.pipe()\nfcntl.fcntl(r, 8, told['host'])\ngot = True",
    "tracing the host": NUMBERS + "got = libc.syscall((101, 117)[NR], 0x4206, told['host'], 0, 0) == 0",
    "the host's memory by a system call": NUMBERS + "import ctypes\nb = ctypes.create_string_buffer(8)\n"
    "class Span(ctypes.Structure):\n    _fields_ = [('at', ctypes.c_void_p), ('n', ctypes.c_size_t)]\n"
    "ours, theirs = Span(ctypes.addressof(b), 8), Span(told['address'], 8)\n"
    "got = libc.syscall((310, 270)[NR], told['host'], ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0) > 0",
    "the host's limits": "import resource\ngot = resource.prlimit(told['host'], resource.RLIMIT_CPU)",
    "the host's priority": "now = os.getpriority(os.PRIO_PROCESS, told['host'])\n"
    "os.setpriority(os.PRIO_PROCESS, told['host'], now)\ngot = True",
    "the host's processors": "os.sched_setaffinity(told['host'], os.sched_getaffinity(told['host']))\ngot = True",
    "outliving the host": "got = libc.prctl(1, 0, 0, 0, 0) == 0",
    "a project's secrets": "got = open(told['dotted']).read()",
    "threads without end": "import resource\n"
    "got = resource.getrlimit(resource.RLIMIT_NPROC)[1] in (-1, *range(4097, 2**22)) and told['is_alone']",
    "a keyring": NUMBERS + "got = libc.syscall((250, 219)[NR], 0, -3, 0) > 0",
    "bpf": NUMBERS + "import ctypes\nlibc.syscall((321, 280)[NR], 0, ctypes.create_string_buffer(120), 120)\n"
    "got = ctypes.get_errno() != 1",
    "perf events": NUMBERS + "import ctypes\nasked = ctypes.create_string_buffer(112)\n"
    "libc.syscall((298, 241)[NR], asked, 0, -1, -1, 0)\n"
    "got = ctypes.get_errno() not in (1, 13)",
    "userfaultfd": NUMBERS + "got = libc.syscall((323, 282)[NR], 1) >= 0",
    "System V shared memory": NUMBERS + "got = libc.syscall((29, 194)[NR], 0, 4096, 0o1600) >= 0",
    "typing into a terminal": "import ctypes, fcntl\nr, w = os.pipe()\nfcntl.ioctl(r, 0x5412, b'x')\ngot = True",
    "a real user id of root": "got = 0 in os.getresuid() + os.getresgid() or 0 in os.getgroups()",
    "becoming root": "os.setresuid(0, 0, 0)\ngot = os.getuid() == 0",
    "capabilities": "got = [l for l in open('/proc/self/status') if l.startswith('CapEff') and int(l.split()[1], 16)]",
    "other processes in /proc": "got = [p for p in os.listdir('/proc') if p.isdigit() and int(p) != os.getpid()]",
    "a core file": "import resource\ngot = resource.getrlimit(resource.RLIMIT_CORE)[1] != 0",
    "a system call of the other kind": "got = libc.syscall(470, 0) >= 0 or __import__('ctypes').get_errno() != 38",
    "another root": "got = libc.chroot(b'.') == 0",
    "a user namespace": "got = libc.unshare(0x10000000) == 0",  # loses root's rights
}

ATTEMPTS = FILES | NETWORK | PROCESSES
