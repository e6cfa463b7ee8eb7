"""Goal: what others do to the tables and connections of a store in PostgreSQL is told, in words that help, and harms nothing
else; a server whose partitions another one took stays out.
Method: servers on one cluster, and SQL of an administrator beside them.
"""
import pathlib
import re
import select
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading

from harness import Server, check, eq, main, scene, wait_until
from queue_help import call, complete, create, fine, lease, loop_stayed_free, produce, stats, totals

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'tools'))
from pg_cluster import Cluster  # pylint: disable=wrong-import-position

WAIT = 120            # for whatever has to come about on a busy machine
LOCK_HOLDERS = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock'"


def told(server, words, times=1):
    wait_until(lambda: len(re.findall(words, server.stderr())) >= times, lambda: f'{words} in {server.stderr()}', WAIT)


def try_produce(server, timeout='1s'):
    return call(server, '/v1/queue.produce', {'queue_name': 'q', 'request_timeout': timeout, 'items': [{'utf8': 'x'}]})


def state(server):
    [part] = fine(server, '/v1/partitions.list', {'queue_name': 'q'})['partitions']
    return part['state']


def told_of(server, words):
    return len(re.findall(words, server.stderr()))


def turns(server, what):
    """How often it said that its store b is in that state."""
    return told_of(server, f'queue.store store=b state={what}')


@scene
def a_loser_says_who_owns_its_partitions_and_stays_out(binary):
    """It is stopped, its connection goes, another takes over; when it goes on it neither writes nor swings."""
    with Cluster(options=('fsync=off',)) as cluster:
        stores = ('--set', f'queue.stores=b={cluster.url}', '--set', 'queue.deployment=d', '--set', 'queue.write_timeout=1s')
        with Server(binary, *stores) as first, Server(binary, *stores) as second:
            create(first, 'q', lease_timeout='1h')
            produce(first, 'q', 'kept')
            create(second, 'q', lease_timeout='1h')
            told(second, 'queue.store store=b state=standby why="another process owns its partitions"')
            eq(state(second), 'standby')
            for body in ({'queue': True}, {'queue': True, 'destructive': True}, {'scheduled': True}):
                got = call(second, '/v1/queue.clear', {'queue_name': 'q', **body})
                eq((got.status, got.body['message']),
                   (454, "partition not available; partition '0' is owned by another process, retry again"))
            first.signal(signal.SIGSTOP)
            cluster.sql(LOCK_HOLDERS)
            told(second, 'queue.store store=b state=owner')
            partition, [item] = lease(second, 'q')
            eq(item['bytes'], b'kept')
            first.signal(signal.SIGCONT)
            eq(try_produce(first).status, 454)
            told(first, 'state=standby')
            got = call(first, '/v1/queue.complete', {'queue_name': 'q', 'request_timeout': '1m', 'ids': [item['id']]})
            eq((got.status, got.body['message']),
               (454, "partition not available; partition '0' is owned by another process, retry again"))
            before = turns(first, 'available'), turns(second, 'available')
            for _ in range(4):
                eq(try_produce(first).status, 454, 'it stays out')
                produce(second, 'q', 'more')
            eq((turns(first, 'available'), turns(second, 'available')), before, 'nobody swings')
            complete(second, 'q', [item], partition)
            second.kill9()
            told(first, 'state=owner')
            produce(first, 'q', 'again')
            loop_stayed_free(first)


@scene
def a_store_that_refuses_every_write_is_in_error_with_a_reason(binary):
    """Its probes are good and its writes are not. It swings ever more rarely, and comes back when its rows do."""
    with Cluster(options=('fsync=off',)) as cluster:
        with Server(binary, '--set', f'queue.stores=b={cluster.url}', '--set', 'queue.write_timeout=5s') as server:
            create(server, 'q', lease_timeout='1h')
            produce(server, 'q', 'kept')
            cluster.sql('ALTER TABLE queue_1_0_r RENAME TO away')
            cluster.sql('CREATE TABLE queue_1_0_r AS SELECT * FROM away LIMIT 0')
            eq(try_produce(server).status, 454)
            told(server, 'state=error why=damage said=".*a row that a write needs is gone')
            eq(state(server), 'error')
            for _ in range(4):
                eq(try_produce(server).status, 454)
            check(turns(server, 'available') < 8, server.stderr())
            cluster.sql('DROP TABLE queue_1_0_r')
            cluster.sql('ALTER TABLE away RENAME TO queue_1_0_r')
            eq(try_produce(server, '100s').status, 200, 'it is back')
            eq(sorted(item['bytes'] for item in lease(server, 'q', 2)[1]), [b'kept', b'x'])


@scene
def items_whose_bodies_are_gone_are_told_and_out_of_the_way(binary):
    with Cluster(options=('fsync=off',)) as cluster:
        with Server(binary, '--set', f'queue.stores=b={cluster.url}') as server:
            create(server, 'q', lease_timeout='1h')
            for i in range(12):
                produce(server, 'q', f'{i}')
            partition, items = lease(server, 'q', 8)
            cluster.sql('TRUNCATE queue_1_0_b')
            got = call(server, '/v1/queue.complete', {'queue_name': 'q', 'partition': partition, 'request_timeout': '1m',
                                                      'ids': [item['id'] for item in items]})
            eq(got.status, 454, got.body)
            told(server, 'error queue.damaged queue=q partition=0 items=12 .*why="their bodies are gone from the store"')
            wait_until(lambda: totals(server, 'q') == [0], 'they are out of the way', WAIT)
            check(not stats(server, 'q')['partitions'][0].get('averageLeasedAge', '0s').startswith('-'), 'a negative age')
            eq(cluster.sql('SELECT count(*) FROM queue_1_0_l'), '0')
            text = server.request('GET', '/metrics').body.decode()
            check('palimpsest_queue_damaged{queue="q",partition="0"} 12' in text, 'they are counted')
            produce(server, 'q', 'new')
            eq(lease(server, 'q')[1][0]['bytes'], b'new')


@scene
def a_queue_deleted_at_the_standby_stays_with_its_owner(binary):
    """Its items are the owner's. When both have deleted it, its tables are gone."""
    with Cluster(options=('fsync=off',)) as cluster:
        stores = ('--set', f'queue.stores=b={cluster.url}', '--set', 'queue.deployment=d')
        with Server(binary, *stores) as first, Server(binary, *stores) as second:
            create(first, 'q')
            produce(first, 'q', 'kept')
            create(second, 'q')
            told(second, 'queue.store store=b state=standby')
            fine(second, '/v1/queues.delete', {'queue_name': 'q'})
            told(second, 'queue.drop .*another process')
            eq(totals(first, 'q'), [1])
            [item] = lease(first, 'q')[1]
            complete(first, 'q', [item])
            fine(first, '/v1/queues.delete', {'queue_name': 'q'})
            wait_until(lambda: cluster.sql("SELECT count(*) FROM pg_tables WHERE tablename LIKE 'queue_1%'") == '0', 'gone', WAIT)


@scene
def a_partition_whose_row_was_deleted_is_named_and_stands_alone(binary):
    """The other partition of the store serves on; once the row is there again, so does this one, with its items."""
    with Cluster(options=('fsync=off',)) as cluster:
        with Server(binary, '--set', f'queue.stores=b={cluster.url}') as server:
            create(server, 'q', 2)
            produce(server, 'q', 'kept')
            [row] = cluster.sql('SELECT queue, partition, epoch, owner, boot FROM queue_part WHERE partition = 0').splitlines()
            cluster.sql('DELETE FROM queue_part WHERE partition = 0')
            wait_until(lambda: try_produce(server).status and told_of(server, 'queue_part'), 'it is told', WAIT)
            for _ in range(5):
                eq(try_produce(server, '10s').status, 200)
            eq([part['state'] for part in fine(server, '/v1/partitions.list', {'queue_name': 'q'})['partitions']],
               ['error', 'available'])
            eq(told_of(server, 'queue.partition .*state=error'), 1, 'once, and not at each try')
            number, partition, epoch, owner, boot = row.split('|')
            cluster.sql(f"INSERT INTO queue_part VALUES ({number}, {partition}, {epoch}, {owner}, '{boot}')")
            wait_until(lambda: totals(server, 'q')[0] > 0, 'its items are there again', WAIT)


@scene
def a_right_that_was_taken_is_named(binary):
    with Cluster(options=('fsync=off',)) as cluster:
        cluster.sql('CREATE ROLE modest LOGIN')
        cluster.sql('CREATE DATABASE modest OWNER modest')
        url = cluster.url.replace('owner@', 'modest@').replace('/postgres', '/modest')
        with Server(binary, '--set', f'queue.stores=b={url}') as server:
            create(server, 'q')
            produce(server, 'q', 'kept')
            cluster.sql('REVOKE INSERT ON queue_1_0_b FROM modest', database='modest')
            eq(try_produce(server).status, 454)
            told(server, 'said="PostgreSQL: ERROR: permission denied for table queue_1_0_b; .INSERT INTO queue_1_0_b.*'
                         'needs SELECT, INSERT, UPDATE or DELETE there"')
            cluster.sql('GRANT INSERT ON queue_1_0_b TO modest', database='modest')
            eq(try_produce(server, '100s').status, 200, 'it is back')


@scene
def a_promoted_standby_goes_on_with_everything(binary):
    """Both are named; the one that may be written is taken."""
    with Cluster(options=('fsync=off',)) as cluster:
        standby = cluster.standby()
        try:
            url = (f'postgresql://owner@/postgres?host=127.0.0.1%2C127.0.0.1&port={cluster.port}%2C{standby.port}'
                   '&target_session_attrs=read-write')
            cluster.sql("ALTER SYSTEM SET synchronous_standby_names = '*'")
            cluster.sql('SELECT pg_reload_conf()')
            wait_until(lambda: cluster.sql('SHOW synchronous_standby_names') == '*', 'what is committed is there too', WAIT)
            with Server(binary, '--set', f'queue.stores=b={url}') as server:
                create(server, 'q', lease_timeout='1h')
                for i in range(5):
                    produce(server, 'q', f'{i}')
                partition, leased = lease(server, 'q', 2)
                cluster.kill()
                eq(try_produce(server).status, 454)
                standby.sql("ALTER SYSTEM SET synchronous_standby_names = ''")
                standby.sql('SELECT pg_reload_conf()')
                standby.sql('SELECT pg_promote()')
                eq(try_produce(server, '100s').status, 200)
                complete(server, 'q', leased, partition)
                eq([item['bytes'] for item in lease(server, 'q', 10)[1]], [b'2', b'3', b'4', b'x'])
                loop_stayed_free(server)
        finally:
            standby.end()


@scene
def a_password_that_changed_and_a_database_that_is_read_only_are_told(binary):
    """What is connected goes on; new connections say why not. Nothing has to be started again when it is mended."""
    with Cluster(options=('fsync=off',)) as cluster:
        cluster.sql("CREATE ROLE modest LOGIN PASSWORD 'one'")
        cluster.sql('CREATE DATABASE modest OWNER modest')
        hba = cluster.folder / 'data' / 'pg_hba.conf'
        hba.write_text('host all owner all trust\nhost all modest all scram-sha-256\n')
        cluster.sql('SELECT pg_reload_conf()')
        ending = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'modest'"
        url = cluster.url.replace('owner@', 'modest:one@').replace('/postgres', '/modest')
        with Server(binary, '--set', f'queue.stores=b={url}') as server:
            create(server, 'q')
            cluster.sql("ALTER ROLE modest PASSWORD 'two'")
            produce(server, 'q', 'connected')
            cluster.sql(ending)
            eq(try_produce(server).status, 454)
            told(server, 'password authentication failed for user')
            cluster.sql("ALTER ROLE modest PASSWORD 'one'")
            eq(try_produce(server, '100s').status, 200)
            cluster.sql('ALTER ROLE modest SET default_transaction_read_only = on')
            cluster.sql(ending)
            eq(try_produce(server).status, 454)
            told(server, 'in a read-only transaction')
            cluster.sql('ALTER ROLE modest SET default_transaction_read_only = off')
            eq(try_produce(server, '100s').status, 200)


@scene
def a_cluster_without_a_connection_left_ends_no_start(binary):
    """Who has the right password and no connection is not denied: the store comes when there is one."""
    with Cluster(options=('fsync=off',)) as cluster:
        cluster.sql("CREATE ROLE modest LOGIN PASSWORD 'one' CONNECTION LIMIT 0")
        cluster.sql('CREATE DATABASE modest OWNER modest')
        hba = cluster.folder / 'data' / 'pg_hba.conf'
        hba.write_text('host all owner all trust\nhost all modest all scram-sha-256\n')
        cluster.sql('SELECT pg_reload_conf()')
        url = cluster.url.replace('owner@', 'modest:one@').replace('/postgres', '/modest')
        with Server(binary, '--set', f'queue.stores=b={url}') as server:
            told(server, 'queue.store store=b state=error why="PostgreSQL refuses: .*too many connections for role')
            check('LOCATION' not in server.stderr() and '53300' not in server.stderr(), server.stderr())
            create(server, 'q')
            cluster.sql('ALTER ROLE modest CONNECTION LIMIT -1')
            eq(try_produce(server, '100s').status, 200)
            wrong = url.replace(':one@', ':two@')
            done = subprocess.run([binary, 'serve', '--data', f'{server.folder}/other', '--set', f'queue.stores=b={wrong}'],
                                  capture_output=True, text=True, timeout=WAIT, check=False)
            eq(done.returncode, 1, done.stderr)
            check('password authentication failed for user "modest"' in done.stderr, done.stderr)


@scene
def the_one_that_may_be_written_is_taken_without_a_word_in_the_url(binary):
    """A standby takes connections too, and shows what the primary was a moment ago."""
    with Cluster(options=('fsync=off',)) as cluster:
        standby = cluster.standby()
        try:
            url = f'postgresql://owner@/postgres?host=127.0.0.1%2C127.0.0.1&port={standby.port}%2C{cluster.port}'
            with Server(binary, '--set', f'queue.stores=b={url}') as server:
                create(server, 'q')
                eq(try_produce(server, '20s').status, 200)
        finally:
            standby.end()


class TlsFront:
    """Speaks TLS to clients, in records as large as there are, and none to the port behind it. first: bytes of the
    first record of an answer."""

    def __init__(self, port, folder, first):
        self.target, self.first = port, first
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(*certificate(folder))
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        try:
            while client.recv(8)[4:] != b'\x04\xd2\x16\x2f':    # SSLRequest; others are refused
                client.sendall(b'N')
            client.sendall(b'S')
            self._pass(self.context.wrap_socket(client, server_side=True), socket.create_connection(('127.0.0.1', self.target)))
        except OSError:
            client.close()

    def _pass(self, client, server):
        """What has come is passed on when no more comes for a moment, so that records are as large as they can be."""
        answer = b''
        with client, server:
            while True:
                ready = [client] if client.pending() else select.select([client, server], [], [], 0.05 if answer else None)[0]
                if not ready:
                    client.sendall(answer[:self.first])
                    client.sendall(answer[self.first:])
                    answer = b''
                for one in ready:
                    piece = one.recv(65536)
                    if not piece:
                        return
                    if one is client:
                        server.sendall(piece)
                    else:
                        answer += piece

    def end(self):
        self.listener.close()


class Pooler:
    """Passes connections on without the options they begin with, as a pooler that was told to ignore them."""

    def __init__(self, port):
        self.target = port
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        with client, socket.create_connection(('127.0.0.1', self.target)) as server:
            try:
                words = client.recv(8192)[8:-2].split(b'\0')
                kept = [word for name, value in zip(words[::2], words[1::2]) if name != b'options' for word in (name, value)]
                body = struct.pack('>I', 196608) + b'\0'.join(kept) + b'\0\0'
                server.sendall(struct.pack('>I', len(body) + 4) + body)
                while True:
                    for one in select.select([client, server], [], [])[0]:
                        piece = one.recv(65536)
                        if not piece:
                            return
                        (server if one is client else client).sendall(piece)
            except OSError:
                return

    def end(self):
        self.listener.close()


def certificate(folder):
    """Of its own making: the files of it and of its key."""
    files = pathlib.Path(folder) / 'cert.pem', pathlib.Path(folder) / 'key.pem'
    subprocess.run(['openssl', 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=test',
                    '-out', files[0], '-keyout', files[1]], check=True, capture_output=True)
    return files


@scene
def answers_over_tls_come_whole_whatever_their_records(binary):
    """What TLS has read and libpq has not taken wakes nobody."""
    with Cluster(options=('fsync=off',)) as cluster, tempfile.TemporaryDirectory() as folder:
        front = TlsFront(cluster.port, folder, 4000)
        url = f'postgresql://owner@127.0.0.1:{front.port}/postgres?sslmode=require'
        with Server(binary, '--set', f'queue.stores=b={url}', '--set', 'queue.write_timeout=20s',
                    '--set', 'queue.start_timeout=60s') as server:
            create(server, 'q', lease_timeout='1h')
            for size in range(54000, 70000, 4000):
                produce(server, 'q', 'x' * size)
                eq([len(item['bytes']) for item in lease(server, 'q', 1)[1]], [size])
            check('no answer in time' not in server.stderr(), server.stderr())
        front.end()


@scene
def a_pooler_that_drops_options_is_refused_at_the_start(binary):
    """No statement or lock would have a limit of time there."""
    with Cluster(options=('fsync=off',)) as cluster, tempfile.TemporaryDirectory() as folder:
        pooler = Pooler(cluster.port)
        url = f'postgresql://owner@127.0.0.1:{pooler.port}/postgres?sslmode=disable&gssencmode=disable'
        done = subprocess.run([binary, 'serve', '--data', f'{folder}/data', '--listen', '127.0.0.1:0', '--set',
                               f'queue.stores=b={url}', '--set', 'queue.start_timeout=1m', '--set', 'queue.write_timeout=1m'],
                              capture_output=True, text=True, timeout=WAIT, check=False)
        pooler.end()
        eq(done.returncode, 3, done.stderr)
        check('drops the options of its sessions' in done.stderr, done.stderr)


@scene
def a_key_with_a_passphrase_asks_nobody_at_the_terminal(binary):
    """Whoever starts a server by hand has one, and no thread may wait for what is typed there."""
    with Cluster(options=('fsync=off',)) as cluster, tempfile.TemporaryDirectory() as folder:
        front = TlsFront(cluster.port, folder, 4000)
        locked = pathlib.Path(folder) / 'locked.pem'
        subprocess.run(['openssl', 'rsa', '-aes256', '-passout', 'pass:secret', '-in', f'{folder}/key.pem', '-out', locked],
                       check=True, capture_output=True)
        locked.chmod(0o600)
        url = f'postgresql://owner@127.0.0.1:{front.port}/postgres?sslmode=require&sslcert={folder}/cert.pem&sslkey={locked}'
        with open(f'{folder}/stderr', 'wb') as stderr:
            process = subprocess.Popen([binary, 'serve', '--data', f'{folder}/data', '--listen', '127.0.0.1:0',
                                        '--set', f'queue.stores=b={url}'], stdin=subprocess.PIPE, stderr=stderr,
                                       stdout=subprocess.DEVNULL, start_new_session=True)
        try:
            said = pathlib.Path(folder) / 'stderr'
            wait_until(lambda: 'could not load private key file' in said.read_text(), said.read_text, WAIT)
            check('secret' not in said.read_text() and 'PEM pass phrase' not in said.read_text(), said.read_text())
            process.send_signal(signal.SIGTERM)
            eq(process.wait(WAIT), 0, 'it ends')
        finally:
            process.kill()
            process.wait()
            process.stdin.close()
            front.end()


@scene
def a_standby_is_promoted_while_the_old_primary_hangs(binary):
    """Nobody refuses: the old one is stopped, as one behind a net that is cut."""
    with Cluster(options=('fsync=off',)) as cluster:
        standby = cluster.standby()
        try:
            url = (f'postgresql://owner@/postgres?host=127.0.0.1%2C127.0.0.1&port={cluster.port}%2C{standby.port}'
                   '&target_session_attrs=read-write')
            cluster.sql("ALTER SYSTEM SET synchronous_standby_names = '*'")
            cluster.sql('SELECT pg_reload_conf()')
            wait_until(lambda: cluster.sql('SHOW synchronous_standby_names') == '*', 'what is committed is there too', WAIT)
            with Server(binary, '--set', f'queue.stores=b={url}', '--set', 'queue.write_timeout=2s') as server:
                create(server, 'q', lease_timeout='1h')
                produce(server, 'q', 'kept')
                cluster.pause()
                eq(try_produce(server).status, 454)
                standby.sql("ALTER SYSTEM SET synchronous_standby_names = ''")
                standby.sql('SELECT pg_reload_conf()')
                standby.sql('SELECT pg_promote()')
                eq(try_produce(server, '60s').status, 200)
                eq([item['bytes'] for item in lease(server, 'q', 10)[1]], [b'kept', b'x'])
                loop_stayed_free(server)
        finally:
            cluster.pause(False)
            standby.end()


main()
