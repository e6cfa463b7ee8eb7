"""A real Apache Cassandra in a folder of its own: one to six nodes on 127.0.0.1, 127.0.0.2, ..., on
free ports.

    with Cluster(nodes=3) as cluster:
        run(cluster.contact_points, cluster.port)
        cluster.kill(2)
        cluster.start(2)

What is acknowledged is on disk: commitlog_sync is batch, and no option weakens that. Nodes 1 to n/2
are in data centre dc1 when there are two, the others in dc2; a node has one token, and its place on
the ring is known beforehand. Every process is known by its pid and the moment it began, gets
signals by these alone, and dies with the program that started it, unless the cluster stays.
script/deps cassandra has the packages.
"""
import atexit
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time

import cql
import jars
from jars import CassandraError

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from ports import free_port     # noqa: E402  pylint: disable=wrong-import-position

HERE = pathlib.Path(__file__).resolve().parent
NODES_MAX = 6
START_TIMEOUT = 300
END_TIMEOUT = 60
POLL_S = 0.1
# Of clients: beside plain text, alone, with a certificate of theirs.
TLS = (None, 'optional', 'required', 'mutual')
TOLD_LINES = 25
LIVENESS = re.compile(rb'(?:InetAddress|Node) /(127\.0\.0\.\d+):\d+ is now (UP|DOWN)')
# Less, and nodes that start together forget each other on a slow machine.
RING_DELAY_MS = 5000

# Sizes are for several nodes on a small machine. Sizes of messages follow from the heap: one may
# have heap / 40.
SETTINGS = {
    'cluster_name': 'test',
    'partitioner': 'org.apache.cassandra.dht.Murmur3Partitioner',
    'num_tokens': 1,
    'auto_bootstrap': False,
    'endpoint_snitch': 'GossipingPropertyFileSnitch',
    'dynamic_snitch': False,
    'storage_compatibility_mode': 'NONE',
    'commitlog_sync': 'batch',
    'commitlog_segment_size': '32MiB',
    'commitlog_total_space': '512MiB',
    'commitlog_disk_access_mode': 'mmap',
    'disk_failure_policy': 'stop',
    'commit_failure_policy': 'stop',
    'hinted_handoff_enabled': True,
    'auto_snapshot': False,
    'memtable_heap_space': '64MiB',
    'memtable_offheap_space': '64MiB',
    'file_cache_size': '32MiB',
    'networking_cache_size': '32MiB',
    'key_cache_size': '8MiB',
    'counter_cache_size': '0MiB',
    'prepared_statements_cache_size': '8MiB',
    'concurrent_reads': 8,
    'concurrent_writes': 8,
    'concurrent_counter_writes': 2,
    'concurrent_compactors': 1,
    'memtable_flush_writers': 1,
    'authenticator': 'AllowAllAuthenticator',
    'authorizer': 'AllowAllAuthorizer',
    'role_manager': 'CassandraRoleManager',
    'crypto_provider': [{'class_name': 'org.apache.cassandra.security.JREProvider'}],
}
LOGIN = {'authenticator': 'PasswordAuthenticator', 'authorizer': 'CassandraAuthorizer'}
SHAPE = ('nodes', 'datacentres', 'auth', 'tls', 'yaml', 'heap')     # what a folder remembers

# The signal of a parent's death comes when the thread that started the child ends: this one ends
# with the program.
_spawner = concurrent.futures.ThreadPoolExecutor(1)


def wait_until(condition, what, until):
    while not condition():
        if time.monotonic() > until:
            raise CassandraError(f'not in time: {what() if callable(what) else what}')
        time.sleep(POLL_S)


def stat_of(pid):
    """(state, when it began) of a process; ('', 0): there is none."""
    try:
        text = pathlib.Path(f'/proc/{pid}/stat').read_text(errors='replace')
    except OSError:
        return '', 0
    fields = text.rpartition(') ')[2].split()
    return fields[0], int(fields[19])


def _is_free(address, port):
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((address, port))
        except OSError:
            return False
    return True


class Cluster:
    """Made here, started by up() or `with`. folder: where it lives, and may be found again;
    without, a temporary one that goes with it. yaml: more settings, or others, of all nodes. stays:
    it outlives the program."""

    def __init__(self, nodes=1, datacentres=1, auth=False, tls=None, yaml=None, heap='512M',
                 folder=None, stays=False):
        if not 1 <= datacentres <= min(nodes, 2) or nodes > NODES_MAX:
            raise CassandraError(f'1 to {NODES_MAX} nodes, in 1 or 2 data centres, each with one')
        if tls not in TLS:
            raise CassandraError(f'tls is one of {", ".join(map(str, TLS))}')
        self.yaml = dict(yaml or {})
        weaker = [key for key in self.yaml if key.startswith('commitlog_sync')]
        if weaker:
            raise CassandraError(f'{weaker[0]} stays as it is: what is acknowledged is on disk')
        self.nodes, self.datacentres = nodes, datacentres
        self.auth, self.tls, self.heap = auth, tls, heap
        self.stays, self._is_temporary = stays, folder is None
        self.folder = pathlib.Path(folder or tempfile.mkdtemp(prefix='cassandra-')).resolve()
        # A part of URLs and of a class path.
        if not re.fullmatch(r'[\w./+@-]+', str(self.folder)):
            raise CassandraError(
                f'a folder is named with letters, digits and ._+@- only: {self.folder}')
        self.folder.mkdir(parents=True, exist_ok=True)
        self.java, self.java_version = jars.find_java()
        self.lib = jars.lib()
        self._children = {}
        # Started by this program and not ended by it: that one of them is gone is an error.
        self._awaited = set()
        # (node, other): how much node had logged when one of them was started.
        self._marks = {}
        self.port, self.storage_port, self.jmx_ports = self._ports()
        self._save()
        if not stays:
            atexit.register(self.end_all)

    @classmethod
    def found(cls, folder, stays=True):
        """The one of which the folder has the shape, whether it runs or not."""
        try:
            shape = json.loads((pathlib.Path(folder) / 'shape.json').read_text())
        except (OSError, ValueError):
            raise CassandraError(f'no cluster in {folder}; first: up') from None
        return cls(folder=folder, stays=stays, **shape)

    def __enter__(self):
        try:
            return self.up()
        except BaseException:
            self.end_all()
            raise

    def __exit__(self, kind, value, trace):
        self.end_all()

    def _save(self):
        shape = {name: getattr(self, name) for name in SHAPE}
        (self.folder / 'shape.json').write_text(json.dumps(shape))
        (self.folder / 'ports.json').write_text(
            json.dumps([self.port, self.storage_port, self.jmx_ports]))

    def _ports(self):
        """Those it had, else free ones: on all addresses the same, but for JMX."""
        with contextlib.suppress(OSError, ValueError):
            return json.loads((self.folder / 'ports.json').read_text())
        return self._common_port(), self._common_port(), [free_port() for _ in range(self.nodes)]

    def _common_port(self):
        while True:
            port = free_port()
            if all(_is_free(self.address(n), port) for n in self.numbers):
                return port

    # ---- what it is

    @property
    def numbers(self):
        return range(1, self.nodes + 1)

    @property
    def contact_points(self):
        return [self.address(n) for n in self.numbers]

    @staticmethod
    def address(n):
        return f'127.0.0.{n}'

    def datacentre(self, n):
        return 'dc1' if n <= self._first_size() else 'dc2'

    def token(self, n):
        """Evenly spaced within a data centre; those of dc2 are just behind those of dc1."""
        first = self._first_size()
        place, size, shift = n - 1, first, 0
        if n > first:
            place, size, shift = n - 1 - first, self.nodes - first, 1000
        return -2**63 + place * (2**64 // size) + shift

    def replication(self, replicas=None):
        """For CREATE KEYSPACE ... WITH replication =: so many in each data centre, or all of its
        nodes."""
        sizes = {'dc1': self._first_size()}
        if self.datacentres == 2:
            sizes['dc2'] = self.nodes - sizes['dc1']
        parts = ''.join(f", '{name}': {min(size, replicas or size)}"
                        for name, size in sizes.items())
        return f"{{'class': 'NetworkTopologyStrategy'{parts}}}"

    def _first_size(self):
        return (self.nodes + 1) // 2 if self.datacentres == 2 else self.nodes

    def _own(self, n):
        if n not in self.numbers:
            raise CassandraError(f'no node {n}: there are 1 to {self.nodes}')
        return self.folder / f'node{n}'

    def log(self, n):
        return self._own(n) / 'log'

    def pid(self, n):
        """None when it does not run: another program may have got its number."""
        child = self._children.get(n)
        if child is not None:
            child.poll()                    # a child of ours is a zombie until it is waited for
        try:
            pid, began = map(int, (self._own(n) / 'pid').read_text().split())
        except (OSError, ValueError):
            return None
        state, begins = stat_of(pid)
        return pid if begins == began and state not in ('', 'Z', 'X') else None

    def runs(self, n):
        """It is there, and not stopped."""
        pid = self.pid(n)
        return pid is not None and stat_of(pid)[0] not in ('T', '')

    # ---- TLS: an authority, certificates of the nodes and of a client, an authority of nobody

    @property
    def ca(self):
        return self.folder / 'tls/ca.pem'

    @property
    def client_certificate(self):
        """(certificate, key)"""
        return self.folder / 'tls/client.pem', self.folder / 'tls/client.key'

    @property
    def strange_ca(self):
        return self.folder / 'tls/strange.pem'

    def tls_context(self):
        context = ssl.create_default_context(cafile=self.ca)
        if self.tls == 'mutual':
            context.load_cert_chain(*self.client_certificate)
        return context

    def _make_tls(self):
        own = self.folder / 'tls'
        if (own / 'made').exists():
            return
        own.mkdir(exist_ok=True)

        def openssl(*words):
            done = subprocess.run(['openssl', *words], cwd=own, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  check=False)
            if done.returncode != 0:
                raise CassandraError(f'openssl {words[0]}: {done.stdout[-500:]}')

        key = ('-newkey', 'rsa:2048', '-nodes', '-days', '3650')
        for name in ('ca', 'strange'):
            openssl('req', '-x509', *key, '-subj', f'/CN={name}', '-keyout', f'{name}.key', '-out',
                    f'{name}.pem')
        names = ','.join(['DNS:localhost'] +
                         [f'IP:{self.address(n)}' for n in range(1, NODES_MAX + 1)])
        (own / 'node.ext').write_text(f'subjectAltName={names}\n')
        (own / 'client.ext').write_text('extendedKeyUsage=clientAuth\n')
        for name in ('node', 'client'):
            openssl('req', *key, '-subj', f'/CN={name}', '-keyout', f'{name}.key', '-out',
                    f'{name}.csr')
            openssl('x509', '-req', '-in', f'{name}.csr', '-CA', 'ca.pem', '-CAkey', 'ca.key',
                    '-CAcreateserial', '-days', '3650', '-extfile', f'{name}.ext', '-out',
                    f'{name}.pem')
        (own / 'store.pem').write_text((own / 'node.key').read_text() +
                                       (own / 'node.pem').read_text())
        (own / 'made').touch()

    def _tls_settings(self):
        if self.tls is None:
            return {}
        self._make_tls()
        factory = 'org.apache.cassandra.security.PEMBasedSslContextFactory'
        return {'client_encryption_options': {
            'enabled': True, 'optional': self.tls == 'optional',
            'require_client_auth': self.tls == 'mutual',
            'ssl_context_factory': {'class_name': factory},
            'keystore': str(self.folder / 'tls/store.pem'), 'keystore_password': '',
            'truststore': str(self.ca), 'truststore_password': ''}}

    # ---- processes

    def up(self, timeout=START_TIMEOUT):
        """All nodes run, and know each other."""
        self.start(*[n for n in self.numbers if self.pid(n) is None], timeout=timeout)
        return self

    def start(self, *numbers, timeout=START_TIMEOUT, wait=True, env=None):
        """These nodes, on what data they have; wait: until they and all others that run see each
        other. env: variables beside ours, of these processes alone."""
        for n in numbers:
            if self.pid(n) is not None:
                raise CassandraError(f'node {n} runs already')
        for n in numbers:
            self._launch(n, env or {})
        if wait:
            self.wait(timeout)

    def kill(self, n):
        """kill -9; returns when it is gone."""
        self._signal(n, signal.SIGKILL)
        self._wait_gone(n)

    def stop(self, n):
        """SIGSTOP, neither dead nor alive; returns when it has stopped."""
        self._signal(n, signal.SIGSTOP)
        self._wait_running(n, False)

    def cont(self, n):
        """SIGCONT; returns when it goes on."""
        self._signal(n, signal.SIGCONT)
        self._wait_running(n, True)

    def end(self, n):
        """SIGTERM, as an administrator would; returns when it is gone."""
        self._signal(n, signal.SIGTERM)
        self._wait_gone(n)

    def down(self):
        """Ends all nodes in an orderly way; the data stay."""
        running = [n for n in self.numbers if self.pid(n) is not None]
        for n in running:
            self._signal(n, signal.SIGTERM)
            self._signal(n, signal.SIGCONT)
        until = time.monotonic() + END_TIMEOUT
        for n in running:
            with contextlib.suppress(CassandraError):
                wait_until(lambda n=n: self.pid(n) is None, '', until)
                continue
            self.kill(n)

    def end_all(self):
        """The end of a test: at once, and nothing is left."""
        for n in self.numbers:
            if self.pid(n) is not None:
                with contextlib.suppress(CassandraError, ProcessLookupError):
                    self.kill(n)
        if self._is_temporary:
            shutil.rmtree(self.folder, ignore_errors=True)
        atexit.unregister(self.end_all)

    def wipe(self):
        self.end_all()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _signal(self, n, number):
        pid = self.pid(n)
        if pid is None:
            raise CassandraError(f'node {n} does not run')
        if number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP):
            self._awaited.discard(n)
        os.kill(pid, number)

    def _wait_gone(self, n):
        wait_until(lambda: self.pid(n) is None, f'the end of node {n}',
                   time.monotonic() + END_TIMEOUT)

    def _wait_running(self, n, runs):
        """A signal takes its time on a busy machine."""
        wait_until(lambda: self.runs(n) == runs, f'node {n} goes on' if runs else f'node {n} stops',
                   time.monotonic() + END_TIMEOUT)

    def _settings(self, n):
        login = LOGIN if self.auth else {}
        seeds = ','.join(f'{address}:{self.storage_port}' for address in self.contact_points)
        own = {
            'initial_token': self.token(n), 'listen_address': self.address(n),
            'rpc_address': self.address(n), 'storage_port': self.storage_port,
            'native_transport_port': self.port,
            'seed_provider': [{'class_name': 'org.apache.cassandra.locator.SimpleSeedProvider',
                               'parameters': [{'seeds': seeds}]}]}
        return {**SETTINGS, **own, **login, **self._tls_settings(), **self.yaml}

    def _launch(self, n, env):
        own = self._own(n)
        for name in ('conf', 'tmp', 'triggers'):
            (own / name).mkdir(parents=True, exist_ok=True)
        (own / 'conf/cassandra.yaml').write_text(''.join(
            f'{key}: {json.dumps(setting)}\n' for key, setting in self._settings(n).items()))
        place = f'dc={self.datacentre(n)}\nrack=rack1\n'
        (own / 'conf/cassandra-rackdc.properties').write_text(place)
        shutil.copy(HERE / 'logback.xml', own / 'conf')
        for other in self.numbers:
            self._marks[n, other] = self._log_size(n)
            self._marks[other, n] = self._log_size(other)
        agents = [f'-javaagent:{path}' for path in self.lib.glob('jamm-*.jar')]
        properties = {
            'java.io.tmpdir': own / 'tmp', 'node.log': own / 'log',
            'logback.configurationFile': f'file://{own}/conf/logback.xml',
            'cassandra.config': f'file://{own}/conf/cassandra.yaml', 'cassandra.storagedir': own,
            'cassandra.logdir': own / 'logs', 'cassandra.triggers_dir': own / 'triggers',
            'cassandra.jmx.local.port': self.jmx_ports[n - 1], 'cassandra-foreground': 'yes',
            'cassandra.libjemalloc': '-', 'cassandra.skip_wait_for_gossip_to_settle': 0,
            'cassandra.ring_delay_ms': RING_DELAY_MS, 'cassandra.superuser_setup_delay_ms': 0,
            'cassandra.shutdown_announce_in_ms': 0}
        command = [*self._java(own / 'conf'), '-Xms128M', f'-Xmx{self.heap}',
                   '-XX:+ExitOnOutOfMemoryError', *agents,
                   *(f'-D{name}={text}' for name, text in properties.items()),
                   'org.apache.cassandra.service.CassandraDaemon']
        if not self.stays:
            command = ['setpriv', '--pdeathsig', 'KILL', *command]
        with open(own / 'out', 'ab') as out:
            child = _spawner.submit(subprocess.Popen, command, cwd=own, stdin=subprocess.DEVNULL,
                                    stdout=out, stderr=out, start_new_session=True,
                                    env={**os.environ, **env}).result()
        self._children[n] = child
        self._awaited.add(n)
        (own / 'pid').write_text(f'{child.pid} {stat_of(child.pid)[1]}\n')

    def _java(self, conf):
        more = ['-Djava.security.manager=allow'] if self.java_version > 17 else []
        return [self.java, f'@{HERE / "java.args"}', *more, '-cp', f'{conf}:{self.lib}/*']

    def nodetool(self, n, *words):
        """What it prints. Of a node that is stopped it gives nothing, and hangs."""
        own = self._own(n)
        command = [*self._java(own / 'conf'), '-Xmx128M', f'-Duser.home={self.folder}',
                   f'-Dnode.log={self.folder}/nodetool.log', f'-Dcassandra.logdir={self.folder}',
                   f'-Dlogback.configurationFile=file://{own}/conf/logback.xml',
                   'org.apache.cassandra.tools.NodeTool', '-h', '127.0.0.1',
                   '-p', str(self.jmx_ports[n - 1]), *words]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=START_TIMEOUT,
                              check=False)
        if done.returncode != 0:
            raise CassandraError(f'nodetool {" ".join(words)}: {done.stdout[-1000:]}')
        return done.stdout

    # ---- what it says

    def session(self, n=1, **options):
        """A connection to one node; options as of cql.Session."""
        if self.tls in ('required', 'mutual'):
            options.setdefault('tls', self.tls_context())
        return cql.Session(self.address(n), self.port, **options)

    def execute(self, text, n=1, consistency='LOCAL_QUORUM'):
        """Rows as dicts."""
        with self.session(n) as session:
            return session.execute(text, consistency)

    def wait(self, timeout=START_TIMEOUT):
        """Until the nodes that run answer, see each other, and have one schema."""
        until = time.monotonic() + timeout
        running = [n for n in self.numbers if n in self._awaited or self.runs(n)]
        for n in running:
            wait_until(lambda n=n: self._answers(n),
                       lambda n=n: f'node {n} answers\n{self._told(n)}', until)
        for n in running:
            wait_until(lambda n=n: self._sees(n, running),
                       lambda n=n: f'node {n} sees the others\n{self._told(n)}', until)
        if self.auth:
            self._spread_roles(until)

    def _answers(self, n):
        if self.pid(n) is None:
            raise CassandraError(f'node {n} ended\n{self._told(n)}')
        if self.tls not in ('required', 'mutual'):
            return cql.answers(self.address(n), self.port)
        with contextlib.suppress(OSError, cql.CqlError):
            with self.session(n):
                return True
        return False

    def _sees(self, n, running):
        """It holds the others for alive, and has their tokens and their schema."""
        text, alive = self._log_bytes(n), {}
        for found in LIVENESS.finditer(text):
            alive[found[1].decode()] = found.start() if found[2] == b'UP' else -1
        for other in running:
            if other != n and alive.get(self.address(other), -1) < self._marks.get((n, other), 0):
                return False
        with contextlib.suppress(OSError, cql.CqlError):
            with self.session(n) as session:
                peers = session.execute('SELECT peer, tokens, schema_version FROM system.peers')
                local = session.execute('SELECT schema_version FROM system.local')
            schema = local[0]['schema_version']
            known = {row['peer'] for row in peers
                     if row['tokens'] and row['schema_version'] == schema}
            return {self.address(other) for other in running if other != n} <= known
        return False

    def _spread_roles(self, until):
        """The roles have one replica at first: with its node down nobody could log in."""
        def logs_in():
            with contextlib.suppress(OSError, cql.CqlError):
                text = 'SELECT role FROM system_auth.roles'
                return bool(self.execute(text, consistency='QUORUM'))
            return False

        wait_until(logs_in, 'the first log-in', until)
        if self.nodes > 1 and not (self.folder / 'roles-are-spread').exists():
            self.execute(f'ALTER KEYSPACE system_auth WITH replication = {self.replication()}')
            self.nodetool(1, 'repair', '--full', 'system_auth')
            (self.folder / 'roles-are-spread').touch()

    def _log_size(self, n):
        return self.log(n).stat().st_size if self.log(n).exists() else 0

    def _log_bytes(self, n):
        return self.log(n).read_bytes() if self.log(n).exists() else b''

    def _told(self, n):
        """The end of what it said."""
        said = []
        for path in (self._own(n) / 'out', self.log(n)):
            if path.exists():
                said += [f'{path}:', *path.read_text(errors='replace').splitlines()[-TOLD_LINES:]]
        return '\n'.join(line[:400] for line in said)
