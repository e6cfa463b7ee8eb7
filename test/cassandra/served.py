"""Servers on one keyspace of a real Cassandra, for scenes: schema applied, options said."""
import subprocess

import rig
from harness import Server  # rig says where it is

DOMAIN = 'en.example.test'
PAGE = f'/{DOMAIN}/v1/page'
# Sooner than by default: what a scene waits for.
SOON = ('hot_ttl=200ms',)


def options(cluster, space, *more, points=None):
    """Words of a command line behind `serve` or `store schema`."""
    said = ('store.kind=cassandra', f'store.keyspace={space}',
            f'store.contact_points={points or f"{cluster.address(1)}:{cluster.port}"}',
            f'store.local_dc={cluster.datacentre(1)}', *more)
    return [word for option in said for word in ('--set', option)]


def schema(binary, cluster, space, *words):
    """`palimpsest store schema`; returns what subprocess.run does."""
    return subprocess.run(
        [binary, 'store', 'schema', '--timeout', '4m', *options(cluster, space, 'store.replication=dc1=1'), *words],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)


def policy(binary, cluster, space, verb, *more, words=()):
    """`palimpsest policy VERB` with these options; returns what subprocess.run does."""
    return subprocess.run([binary, 'policy', verb, *options(cluster, space, *more), *words],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                          check=False)


def applied(binary, space):
    """A node, and a new keyspace of that name on it, with its tables."""
    cluster = rig.node()
    cluster.execute(f'DROP KEYSPACE IF EXISTS {space}')
    done = schema(binary, cluster, space)
    rig.eq(done.returncode, 0, done.stderr)
    return cluster


def serve(binary, cluster, space, *more, **rest):
    """One server on it, whose policies are applied first."""
    done = policy(binary, cluster, space, 'apply', *more)
    rig.eq(done.returncode, 0, done.stderr)
    return Server(binary, '--domain', DOMAIN, *options(cluster, space, *SOON, *more), **rest)


def fails(binary, *words):
    """A start that ends by itself: its exit code, and what it said."""
    done = subprocess.run([binary, 'serve', '--data', '/tmp/none-of-this', '--listen',
                           '127.0.0.1:0', *words], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=120, check=False)
    return done.returncode, done.stderr
