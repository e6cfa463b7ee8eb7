"""src/cql against a real node that wants TLS, a certificate of the client, or a password."""
import rig
from rig import Cluster, check, eq, main, scene

from client import Client

READ = 'SELECT release_version FROM system.local'
# No second try in the time of a scene.
PATIENT = {'retry_min_ms': 20000, 'retry_max_ms': 30000}


def place(cluster):
    return f'{cluster.address(1)}:{cluster.port}'


def reads(binary, cluster, **options):
    with Client(binary, place(cluster), **options) as client:
        eq(client.text(READ).one, ['5.0.9'])
        rig.wait_until(lambda: all(n.connections == 2 for n in client.nodes().values()),
                       'two connections')


def refused(binary, cluster, *words, **options):
    """The client is not ready, and says why; a request ends at once."""
    with Client(binary, place(cluster), ready=False, **PATIENT, **options) as client:
        def said():
            outcome = client.ask_text(READ)
            eq((outcome.why, outcome.sent), ('unavailable', 0))
            return 'not yet' not in outcome.note and outcome.note
        note = rig.wait_until(said, f'{options} is refused')
        for word in words:
            check(word.lower() in note.lower(), f'{options}: {word}: {note}')
        check(True not in client.readiness, 'it never was ready')


@scene
def tls_is_verified(binary):
    with Cluster(tls='required') as cluster:
        ca = {'tls': True, 'ca': cluster.ca}
        for version in (4, 5):
            reads(binary, cluster, version=version, lz4=True, **ca)
        reads(binary, cluster, name='localhost', **ca)
        reads(binary, cluster, tls=True, unverified=True)
        refused(binary, cluster, 'certificate', tls=True, ca=cluster.strange_ca)
        refused(binary, cluster, 'certificate', tls=True)
        refused(binary, cluster, 'name', **{**ca, 'name': 'other.example'})
        refused(binary, cluster)
        with Client(binary, place(cluster), ready=False, tls=True, ca='/nothing') as client:
            code = client.process.wait(60)
            eq(code, 1)
            rig.wait_until(lambda: any('/nothing' in o.get('refused', '') for o in client.told),
                           'the file is named')
            client.stop = lambda: None      # it has ended, as it should


@scene
def large_values_pass_over_tls(binary):
    with Cluster(tls='required') as cluster:
        rig.keyspace(cluster, 't')
        cluster.execute('CREATE TABLE t.t (k int PRIMARY KEY, v blob)')
        for options in ({}, {'lz4': True}, {'version': 4}):
            with Client(binary, place(cluster), tls=True, ca=cluster.ca, **options) as client:
                client.statement('put', 'INSERT INTO t.t (k, v) VALUES (?, ?)', idempotent=True)
                client.statement('get', 'SELECT v FROM t.t WHERE k = ?', idempotent=True)
                data = bytes(range(256)) * 6000
                pendings = [client.start('put', (f'i32:{k}',), (f'blob:{data[k:].hex()}',),
                                         ts='now') for k in range(8)]
                eq([p.wait().why for p in pendings], ['ok'] * 8)
                pendings = [client.start('get', (f'i32:{k}',)) for k in range(8)]
                for k, pending in enumerate(pendings):
                    check(pending.wait().one == ['0x' + data[k:].hex()], f'{options} {k}')


@scene
def a_certificate_of_the_client_is_shown(binary):
    with Cluster(tls='mutual') as cluster:
        certificate, key = cluster.client_certificate
        ca = {'tls': True, 'ca': cluster.ca}
        reads(binary, cluster, cert=certificate, key=key, **ca)
        refused(binary, cluster, **ca)


@scene
def a_password_is_right_or_said_to_be_wrong(binary):
    with Cluster(auth=True) as cluster:
        for version in (4, 5):
            reads(binary, cluster, version=version, user='cassandra', password='cassandra')
            refused(binary, cluster, 'incorrect', version=version, user='cassandra',
                    password='wrong')
            refused(binary, cluster, 'incorrect', version=version, user='nobody', password='x')
            refused(binary, cluster, 'password', version=version)
        cluster.execute("CREATE ROLE reader WITH PASSWORD = 'r' AND LOGIN = true")
        rig.keyspace(cluster, 'a')
        cluster.execute('CREATE TABLE a.t (k int PRIMARY KEY)')
        with Client(binary, place(cluster), user='reader', password='r') as client:
            outcome = client.ask_text('SELECT k FROM a.t WHERE k = 1')
            eq((outcome.why, outcome.code), ('denied', 0x2100))
            check('reader' in outcome.note, outcome.note)
            cluster.execute('GRANT SELECT ON a.t TO reader')
            rig.wait_until(lambda: client.ask_text('SELECT k FROM a.t WHERE k = 1').why == 'ok',
                           'it may now')


main()
