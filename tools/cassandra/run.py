#!/usr/bin/env python3
"""A real Apache Cassandra on loopback, to develop and test with: cluster.py as a command.

run.py up --nodes 3                 starts it, installs what is missing, and leaves it up
run.py cql "SELECT ..."             rows as JSON, one a line; run.py cql --node 2 "..."
run.py kill 2 | start 2             kill -9, and back on its data
run.py stop 2 | cont 2              SIGSTOP, SIGCONT
run.py nodetool 1 status
run.py status | down | down --wipe

A folder holds a cluster: build/cassandra, or the one given with --dir before the verb. `up` without
options starts the one that is there; another shape needs `down --wipe` first. Ports are free ones,
and stay as long as the folder.
"""
import argparse
import json
import pathlib
import subprocess
import sys

from cluster import NODES_MAX, TLS, Cluster
from cql import CqlError
from jars import CassandraError, lib

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHAPE = {'nodes': 1, 'datacentres': 1, 'auth': False, 'tls': None, 'heap': '512M', 'yaml': {}}


def say(text):
    print(text, flush=True)


def up(args):
    subprocess.run([ROOT / 'script/deps', 'cassandra'], check=True)
    settings = dict(line.split(':', 1) for line in args.yaml or ())
    args.yaml = {key.strip(): json_or_text(text.strip()) for key, text in settings.items()} or None
    given = {name: getattr(args, name) for name in SHAPE if getattr(args, name) is not None}
    if (args.dir / 'shape.json').exists():
        cluster = Cluster.found(args.dir)
        other = [name for name, wanted in given.items() if getattr(cluster, name) != wanted]
        if other:
            raise CassandraError(
                f'{args.dir} holds a cluster with other {", ".join(other)}; first: down --wipe')
    else:
        cluster = Cluster(folder=args.dir, stays=True, **{**SHAPE, **given})
    try:
        cluster.up()
    except BaseException:
        cluster.end_all()
        raise
    status(cluster)


def json_or_text(text):
    try:
        return json.loads(text)
    except ValueError:
        return text


def as_text(value):
    return value.hex() if isinstance(value, bytes) else str(value)


def status(cluster):
    for n in cluster.numbers:
        pid = cluster.pid(n)
        state = 'down' if pid is None else 'running' if cluster.runs(n) else 'stopped'
        say(f'node {n}  {cluster.address(n)}:{cluster.port}  {cluster.datacentre(n)}  {state}'
            + (f'  pid {pid}' if pid else '') + f'  log {cluster.log(n)}')
    if cluster.tls:
        say(f'TLS for clients is {cluster.tls}; certificates are in {cluster.ca.parent}')


def main():
    parser = argparse.ArgumentParser(prog='tools/cassandra/run.py', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--dir', type=pathlib.Path, default=ROOT / 'build/cassandra',
                        help='where it lives')
    verbs = parser.add_subparsers(dest='verb', required=True)
    start = verbs.add_parser('up', help='start all nodes that do not run')
    start.add_argument('--nodes', type=int, help=f'1 to {NODES_MAX} [1]')
    start.add_argument('--datacentres', type=int,
                       help='1 or 2: the second half of the nodes is in dc2 [1]')
    start.add_argument('--auth', action='store_true', default=None,
                       help='ask for a log-in: cassandra, cassandra')
    start.add_argument('--tls', choices=TLS[1:],
                       help='for clients: beside plain text, alone, with their certificate')
    start.add_argument('--heap', help='of each node; a message may have a fortieth of it [512M]')
    start.add_argument('--yaml', action='append', metavar='KEY: VALUE',
                       help='a setting of cassandra.yaml')
    end = verbs.add_parser('down', help='end all nodes in an orderly way')
    end.add_argument('--wipe', action='store_true', help='and delete the folder')
    verbs.add_parser('status', help='what runs; exit 1 when a node does not')
    verbs.add_parser('fetch', help='install and fetch what is missing, no more')
    for verb in ('start', 'kill', 'stop', 'cont'):
        verbs.add_parser(verb).add_argument('node', type=int)
    tool = verbs.add_parser('nodetool')
    tool.add_argument('node', type=int)
    tool.add_argument('words', nargs=argparse.REMAINDER)
    query = verbs.add_parser('cql')
    query.add_argument('--node', type=int, default=1)
    query.add_argument('--consistency', default='LOCAL_QUORUM')
    query.add_argument('statements', nargs='+')
    args = parser.parse_args()
    args.dir = args.dir.resolve()
    try:
        return act(args)
    except subprocess.CalledProcessError as error:
        print(f'run.py: {error.cmd[0]} failed', file=sys.stderr)
    except (CassandraError, CqlError, OSError) as error:
        print(f'run.py: {error}', file=sys.stderr)
    return 1


def act(args):
    if args.verb == 'up':
        up(args)
        return 0
    if args.verb == 'fetch':
        subprocess.run([ROOT / 'script/deps', 'cassandra'], check=True)
        say(lib())
        return 0
    cluster = Cluster.found(args.dir)
    if args.verb == 'status':
        status(cluster)
        return 0 if all(map(cluster.runs, cluster.numbers)) else 1
    if args.verb == 'down':
        cluster.down()
        if args.wipe:
            cluster.wipe()
    elif args.verb == 'nodetool':
        print(cluster.nodetool(args.node, *args.words), end='')
    elif args.verb == 'cql':
        with cluster.session(args.node) as session:
            for statement in args.statements:
                for row in session.execute(statement, args.consistency):
                    say(json.dumps(row, default=as_text))
    else:
        getattr(cluster, args.verb)(args.node)
    return 0


if __name__ == '__main__':
    sys.exit(main())
