"""Ports of 127.0.0.1 for programs that cannot choose their own, or that go away and come back to the same one."""
import pathlib
import random
import socket

_given = set()


def free_port():
    """Below those that the kernel gives away, so that nobody is given it before it is used; each is given once."""
    lowest = int(pathlib.Path('/proc/sys/net/ipv4/ip_local_port_range').read_text().split()[0])
    for port in random.SystemRandom().sample(range(min(10000, lowest - 1000), lowest), 1000):
        with socket.socket() as one:
            try:
                one.bind(('127.0.0.1', port))
            except OSError:
                continue
        if port not in _given:
            _given.add(port)
            return port
    raise OSError('no ports are free')
