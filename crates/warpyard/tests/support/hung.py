"""A FUSE file system that stops answering: hung.py MOUNTPOINT UID (lookup|write)

With `lookup` no name in it is ever found or missed, so whoever enters it hangs. With `write` a file can be made, and
whoever writes to it hangs. Says what it is asked, a word a line. Its end aborts the connection, which frees everyone."""
import ctypes, os, struct, sys

LOOKUP, GETATTR, SETATTR, WRITE, STATFS, INIT, CREATE = 1, 3, 4, 16, 17, 26, 35
place, uid, hang = sys.argv[1], int(sys.argv[2]), sys.argv[3]
fuse = os.open("/dev/fuse", os.O_RDWR)
libc = ctypes.CDLL(None, use_errno=True)
options = f"fd={fuse},rootmode=40000,user_id=0,group_id=0,allow_other"
if libc.mount(b"hung", place.encode(), b"fuse", 6, options.encode()) != 0:
    sys.exit(os.strerror(ctypes.get_errno()))


def say(word):
    print(word, flush=True)


def attributes(node):
    mode = 0o40777 if node == 1 else 0o100666
    return struct.pack("<QQQQQQIIIIIIIIII", node, 0, 0, 0, 0, 0, 0, 0, 0, mode, 1, uid, uid, 0, 4096, 0)


def answer(unique, body=b"", error=0):
    os.write(fuse, struct.pack("<IiQ", 16 + len(body), -error, unique) + body)


made = 1
while True:
    request = os.read(fuse, 1 << 20)
    _, opcode, unique, node = struct.unpack_from("<IIQQ", request)
    if opcode == INIT:
        major, minor = struct.unpack_from("<II", request, 40)
        answer(unique, struct.pack("<IIIIHHIIHHI", 7, min(minor, 31), 0, 0, 0, 0, 4096, 1, 0, 0, 0) + bytes(28))
        say("mounted")
    elif hang == "lookup" or opcode == WRITE:
        say("hangs")
    elif opcode in (GETATTR, SETATTR):
        answer(unique, struct.pack("<QII", 0, 0, 0) + attributes(node))
    elif opcode == LOOKUP:
        answer(unique, error=2)
    elif opcode == CREATE:
        made += 1
        entry = struct.pack("<QQQQII", made, 0, 0, 0, 0, 0) + attributes(made)
        answer(unique, entry + struct.pack("<QII", 1, 0, 0))
    elif opcode == STATFS:
        answer(unique, struct.pack("<QQQQQIIII", 0, 0, 0, 0, 0, 4096, 255, 4096, 0) + bytes(24))
    else:
        answer(unique, error=38)
