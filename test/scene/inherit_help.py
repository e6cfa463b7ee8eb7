"""What scenes of inherited sockets share: the manager's part, and requests over a socket of any kind."""
import contextlib
import os
import pathlib
import socket
import subprocess

from harness import EXIT_TIMEOUT, REQUEST_TIMEOUT


@contextlib.contextmanager
def bound(kind, address):
    """A socket that listens."""
    with socket.socket(kind) as listener:
        listener.bind(address)
        listener.listen(64)
        yield listener


class Handed:
    """A server that was given these files from descriptor 3 on; pid: whom they are said to be for."""

    def __init__(self, binary, folder, files, *args, names='', pid='$$'):
        self.folder = pathlib.Path(folder)
        high = [os.dup(file.fileno()) for file in files]
        moves = ' '.join(f'{3 + i}<&{fd}' for i, fd in enumerate(high))
        script = f'export LISTEN_PID={pid} LISTEN_FDS={len(files)} LISTEN_FDNAMES={names}; exec "$@" {moves}'
        self.log = self.folder / 'stderr'
        with open(self.log, 'ab') as log:
            self.process = subprocess.Popen(['bash', '-c', script, 'bash', str(pathlib.Path(binary).resolve()), 'serve', '--data',
                                             str(self.folder / 'data'), '--set', 'drain_timeout=10m', *args],
                                            stdout=subprocess.PIPE, stderr=log, text=True, pass_fds=high)
        for fd in high:
            os.close(fd)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def line(self):
        return self.process.stdout.readline().rstrip('\n')

    def stderr(self):
        return self.log.read_text(errors='replace')

    def ends(self):
        return self.process.wait(EXIT_TIMEOUT)


def connected(kind, address):
    client = socket.socket(kind)
    client.settimeout(REQUEST_TIMEOUT)
    client.connect(address)
    return client


def ask(client, method, path, body=b''):
    """Sends; the answer is read by answer()."""
    client.sendall(f'{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: text/html\r\n'
                   f'Content-Length: {len(body)}\r\n\r\n'.encode() + body)


def answer(client):
    """(status, bytes behind the head) when the server has closed."""
    got = b''
    while piece := client.recv(1 << 16):
        got += piece
    head, _, body = got.partition(b'\r\n\r\n')
    return int(head.split()[1]), body


def request(kind, address, method, path, body=b''):
    with connected(kind, address) as client:
        ask(client, method, path, body)
        return answer(client)
